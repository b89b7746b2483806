// PyTorch's rules with the containers that it uses: a std::set by (stream, size, address), hash maps, two mutexes, its statistics.
// Written for the comparison; no line is PyTorch's. It prints the processor time of a pair of free and alloc, ns, by round.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <mutex>
#include <random>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>
#include <sys/resource.h>

struct Pool;
struct Block { int stream; size_t size, asked; char *ptr; bool live; Block *prev, *next; Pool *pool; };
struct Less { bool operator()(const Block *a, const Block *b) const {
  if (a->stream != b->stream) return a->stream < b->stream;
  if (a->size != b->size) return a->size < b->size;
  return (uintptr_t)a->ptr < (uintptr_t)b->ptr; } };
struct Pool { std::set<Block *, Less> blocks; bool small; };
struct Stat { int64_t cur, peak, up, down;
  void inc(int64_t n) { cur += n; if (cur > peak) peak = cur; up += n; }
  void dec(int64_t n) { cur -= n; down += n; } };
struct Stats { Stat count[3], segment[3], active[3], split[3], bytes[3], reserved[3], activeb[3], splitb[3], asked[3]; };

struct Allocator {
  std::recursive_mutex mu; std::mutex index_mu;
  Pool pools[2]; Stats st{}; std::unordered_set<Block *> active; std::unordered_map<void *, Block *> index; char *next = (char *)(1ull << 40);
  Allocator() { pools[0].small = true; pools[1].small = false; }
  template <class F> void each(Pool &p, F f) { f(0); f(p.small ? 1 : 2); }
  void *alloc(size_t asked, int stream) {
    Block *b;
    { std::lock_guard<std::recursive_mutex> l(mu);
      size_t size = asked < 512 ? 512 : (asked + 511) / 512 * 512;
      Pool &p = pools[size > (1 << 20)];
      Block key{stream, size, 0, nullptr, false, nullptr, nullptr, nullptr};
      auto it = p.blocks.lower_bound(&key);
      if (it != p.blocks.end() && (*it)->stream == stream) { b = *it; p.blocks.erase(it); }
      else {
        size_t n = size <= (1 << 20) ? 2 << 20 : size < (10 << 20) ? 20 << 20 : (size + (2 << 20) - 1) / (2 << 20) * (2 << 20);
        b = new Block{stream, n, 0, next, false, nullptr, nullptr, &p}; next += (n + (2 << 20) - 1) / (2 << 20) * (2 << 20);
        each(p, [&](int i) { st.segment[i].inc(1); st.reserved[i].inc(n); });
      }
      bool was = b->prev || b->next;
      size_t rest = b->size - size;
      if (p.small ? rest >= 512 : rest > (1 << 20)) {
        Block *r = b; b = new Block{stream, size, 0, r->ptr, false, r->prev, r, &p};
        if (b->prev) b->prev->next = b;
        r->prev = b; r->ptr += size; r->size -= size; p.blocks.insert(r);
        if (was) each(p, [&](int i) { st.splitb[i].dec(size); });
        else each(p, [&](int i) { st.splitb[i].inc(r->size); st.split[i].inc(1); });
      } else if (was) each(p, [&](int i) { st.splitb[i].dec(b->size); st.split[i].dec(1); });
      b->live = true; b->asked = asked; active.insert(b);
      each(p, [&](int i) { st.count[i].inc(1); st.bytes[i].inc(b->size); st.active[i].inc(1); st.activeb[i].inc(b->size); st.asked[i].inc(asked); });
    }
    std::lock_guard<std::mutex> l(index_mu); index[b->ptr] = b; return b->ptr;
  }
  size_t merge(Block *d, Block *s, Pool &p) {
    if (!s || s->live) return 0;
    if (d->prev == s) { d->ptr = s->ptr; d->prev = s->prev; if (d->prev) d->prev->next = d; }
    else { d->next = s->next; if (d->next) d->next->prev = d; }
    size_t n = s->size; d->size += n; p.blocks.erase(s); delete s; return n;
  }
  void free(void *ptr) {
    Block *b;
    { std::lock_guard<std::mutex> l(index_mu); auto it = index.find(ptr); b = it->second; index.erase(it); }
    std::lock_guard<std::recursive_mutex> l(mu);
    Pool &p = *b->pool; b->live = false;
    each(p, [&](int i) { st.count[i].dec(1); st.bytes[i].dec(b->size); });
    size_t was = b->size; int64_t nb = 0, ns = 0;
    for (Block *o : {b->prev, b->next}) if (size_t n = merge(b, o, p)) { nb--; ns -= n; }
    active.erase(b); p.blocks.insert(b);
    if (b->prev || b->next) { nb++; ns += b->size; }
    each(p, [&](int i) {
      if (nb > 0) st.split[i].inc(nb); else if (nb < 0) st.split[i].dec(-nb);
      if (ns > 0) st.splitb[i].inc(ns); else if (ns < 0) st.splitb[i].dec(-ns);
      st.active[i].dec(1); st.activeb[i].dec(was); st.asked[i].dec(b->asked); });
  }
};
static double cpu() { rusage r; getrusage(RUSAGE_SELF, &r); return r.ru_utime.tv_sec * 1e9 + r.ru_utime.tv_usec * 1e3 + r.ru_stime.tv_sec * 1e9 + r.ru_stime.tv_usec * 1e3; }
int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 300000;
  std::mt19937_64 r(1); std::vector<size_t> sizes(1 << 16); std::vector<uint16_t> slots(1 << 16);
  for (auto &s : sizes) s = 512 * exp2(17 * (r() >> 11) * 0x1p-53);
  for (auto &s : slots) s = r() % 1000;
  Allocator a; std::vector<void *> live(1000);
  for (int i = 0; i < 1000; i++) live[i] = a.alloc(sizes[i], 0);
  auto turn = [&](long n) { static long i = 0; for (long k = 0; k < n; k++, i++) { int s = slots[i & 0xffff]; a.free(live[s]); live[s] = a.alloc(sizes[i * 7 & 0xffff], 0); } };
  turn(200000);
  for (int round = 0; round < 5; round++) { double c = cpu(); turn(n);
    printf("%.1f\n", (cpu() - c) / n);
  }
}
