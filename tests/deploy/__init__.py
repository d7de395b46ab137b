"""What is in deploy/, judged by the tools that read it."""
