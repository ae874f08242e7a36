// The AWS SDK for JavaScript v3: `node javascript_round.mjs URL NAME`. It compares the MD5s itself.
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [url, name] = process.argv.slice(2);
const installed = createRequire(join(process.env.CLIENTS, "node_modules/"));
const aws = await import(pathToFileURL(installed.resolve("@aws-sdk/client-sqs")));
const { default: module } = aws;
const sdk = module ?? aws;
const client = new sdk.SQSClient({
  endpoint: url,
  region: "us-east-1",
  credentials: { accessKeyId: "anything", secretAccessKey: "anything" },
});
const ask = (command, input) => client.send(new sdk[command](input));
const told = {};

try {
  await ask("GetQueueUrlCommand", { QueueName: name });
} catch (error) {
  told.missing = error instanceof sdk.QueueDoesNotExist;
}
const attributes = { FifoQueue: "true", ContentBasedDeduplication: "true" };
const { QueueUrl } = await ask("CreateQueueCommand", { QueueName: name, Attributes: attributes });
const sent = await ask("SendMessageBatchCommand", {
  QueueUrl,
  Entries: ["one", "two", "one"].map((body, n) => ({
    Id: `${n}`,
    MessageBody: body,
    MessageGroupId: "group",
    MessageAttributes: {
      number: { DataType: "Number", StringValue: `${n}` },
      bytes: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255]) },
    },
  })),
});
const [first, , copy] = sent.Successful;
told.copy = copy.MessageId === first.MessageId && copy.SequenceNumber === first.SequenceNumber;
told.received = [];
while (told.received.length < 2) {
  const answer = await ask("ReceiveMessageCommand", {
    QueueUrl,
    WaitTimeSeconds: 20,
    MessageAttributeNames: ["All"],
    MessageSystemAttributeNames: ["All"],
  });
  for (const message of answer.Messages ?? []) {
    told.received.push({
      body: message.Body,
      group: message.Attributes.MessageGroupId,
      number: message.MessageAttributes.number.StringValue,
      bytes: [...message.MessageAttributes.bytes.BinaryValue],
    });
    await ask("DeleteMessageCommand", { QueueUrl, ReceiptHandle: message.ReceiptHandle });
  }
}
try {
  await ask("SendMessageBatchCommand", { QueueUrl, Entries: [] });
} catch (error) {
  told.empty = error instanceof sdk.EmptyBatchRequest;
}
await ask("DeleteQueueCommand", { QueueUrl });
console.log(JSON.stringify(told));
