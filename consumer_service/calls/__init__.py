"""The calls of a node, each as a function of values. No Flask."""
