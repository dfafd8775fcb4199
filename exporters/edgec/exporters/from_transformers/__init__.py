"""Language models of Hugging Face's transformers, from a folder or a GGUF file, to programs."""
