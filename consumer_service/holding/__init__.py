"""What a node holds: leases on partitions of groups, their journal, how they change hands."""
