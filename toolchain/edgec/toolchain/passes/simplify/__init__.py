"""Programs made plainer or faster without kernels of their own."""
