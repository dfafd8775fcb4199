"""All of Vulkan's kernels: their source, their cost, and how they are placed."""
