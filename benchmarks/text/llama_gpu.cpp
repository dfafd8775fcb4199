// How fast llama.cpp reads and writes on a GPU, as `gpu.py` measures edgec: the same tokens, each
// waited for and chosen on the host from all scores.
//
//   cmake -B build -DGGML_CUDA=ON -DCMAKE_BUILD_TYPE=Release && cmake --build build  # llama.cpp
//   g++ -O2 -std=c++17 llama_gpu.cpp -Iinclude -Iggml/include -Lbuild/bin -lllama -lggml -lggml-base
//   ./a.out smol.gguf > llama.txt
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int, char **given) {
  const int warm = 16, count = 128, rounds = 3;
  ggml_backend_load_all();
  for (int flash = 0; flash < 2; ++flash) {
    llama_model_params of_model = llama_model_default_params();
    of_model.n_gpu_layers = 999;
    llama_model *model = llama_model_load_from_file(given[1], of_model);
    if (!model) return 1;
    llama_context_params of_context = llama_context_default_params();
    of_context.n_ctx = 1024;
    of_context.n_batch = of_context.n_ubatch = 512;
    of_context.flash_attn_type =
        flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context *context = llama_init_from_model(model, of_context);
    if (!context) return 1;
    const int words = llama_vocab_n_tokens(llama_model_get_vocab(model));
    auto likeliest = [&] {
      const float *scores = llama_get_logits_ith(context, -1);
      return llama_token(std::max_element(scores, scores + words) - scores);
    };
    for (int size : {64, 256}) {
      double prompt = 1e9;
      std::vector<double> times;
      for (int round = 0; round < rounds; ++round) {
        llama_memory_clear(llama_get_memory(context), true);
        std::vector<llama_token> text(size);
        for (int i = 0; i < size; ++i) text[i] = (7919 * i + 13) % 1000;
        double began = now();
        llama_decode(context, llama_batch_get_one(text.data(), size));
        llama_token token = likeliest();
        prompt = std::min(prompt, now() - began);
        times.clear();
        for (int i = 0; i < warm + count; ++i) {
          began = now();
          llama_decode(context, llama_batch_get_one(&token, 1));
          token = likeliest();
          if (i >= warm) times.push_back(now() - began);
        }
      }
      std::sort(times.begin(), times.end());
      const double median = times[times.size() / 2];
      std::printf("llama.cpp flash=%d prompt of %d: %.2f ms, a token %.3f ms (median), %.0f tokens/s\n",
                  flash, size, prompt * 1e3, median * 1e3, 1 / median);
    }
    llama_free(context);
    llama_model_free(model);
  }
}
