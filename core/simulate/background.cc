#include "simulate/background.h"

namespace granary::simulate {

void Background::Begin() {
  ready_.Open();
  turn_.Pass();
}

void Background::Sleep(uint64_t until, const std::atomic<uint32_t>* word, uint32_t value) {
  wakes_at_ = until;
  word_ = word;
  value_ = value;
  back_.Open();
  turn_.Pass();
}

void Background::Await() {
  ready_.Pass();
  started_ = true;
  Run();
}

void Background::Run() {
  turn_.Open();
  back_.Pass();
}

}  // namespace granary::simulate
