// SPDX-License-Identifier: Apache-2.0
//
// A switch saves the callee-saved registers on the stack that it leaves, and nothing else: ucontext's system calls would be
// twenty times slower.
#include "test/emulation/Fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void dsEmulatedSwitch(void **from, void *to);

#if defined(__x86_64__)
asm(R"(
.text
.globl dsEmulatedSwitch
.type dsEmulatedSwitch, @function
dsEmulatedSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size dsEmulatedSwitch, .-dsEmulatedSwitch
)");
static constexpr int kSaved = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.globl dsEmulatedSwitch
.type dsEmulatedSwitch, %function
dsEmulatedSwitch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
.size dsEmulatedSwitch, .-dsEmulatedSwitch
)");
#else
#error "the emulation of CUDA needs a switch of stacks for this processor"
#endif

namespace ds::emulated {

static constexpr size_t kStackBytes = 128 << 10;

Fiber::Fiber(void (*main)()) : bytes(kStackBytes) {
  stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  if (stack == MAP_FAILED) {
    std::fputs("emulation: no memory for a stack\n", stderr);
    std::abort();
  }
  bottom = stack;
  mprotect(stack, 4096, PROT_NONE); // an overflow ends the process instead of another fiber
  auto top = reinterpret_cast<uintptr_t>(stack) + bytes;
#if defined(__x86_64__)
  auto *slots = reinterpret_cast<uintptr_t *>(top) - kSaved - 2; // as behind a call, rsp is 16n + 8
  for (int k = 0; k < kSaved; ++k)
    slots[k] = 0;
  slots[kSaved] = reinterpret_cast<uintptr_t>(main);
  slots[kSaved + 1] = 0; // main's return address
  stackPointer = slots;
#else
  auto *slots = reinterpret_cast<uintptr_t *>(top - 160);
  for (int k = 0; k < 20; ++k)
    slots[k] = 0;
  slots[1] = reinterpret_cast<uintptr_t>(main); // x30
  stackPointer = slots;
#endif
}

Fiber::~Fiber() {
  if (stack)
    munmap(stack, kStackBytes);
}

// AddressSanitizer learns on which stack the program is; that of the OS thread it tells itself.
#if defined(__SANITIZE_ADDRESS__)
static thread_local Fiber *left = nullptr;
void Fiber::begin() {
  const void *from = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fakeStack, &from, &size);
  left->bottom = from;
  left->bytes = size;
}
void Fiber::switchTo(Fiber &to) {
  left = this;
  __sanitizer_start_switch_fiber(&fakeStack, to.bottom, to.bytes);
  dsEmulatedSwitch(&stackPointer, to.stackPointer);
  begin();
}
#else
void Fiber::begin() {}
void Fiber::switchTo(Fiber &to) { dsEmulatedSwitch(&stackPointer, to.stackPointer); }
#endif

} // namespace ds::emulated
