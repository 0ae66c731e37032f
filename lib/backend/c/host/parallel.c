#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

// A thread pool for parallel loops, started by the first loop that needs it. Threads spin between loops in close succession. A
// loop does not wait for threads that arrive after all chunks are taken.
typedef void (*rlxc_loop_body)(const void* args, int64_t begin, int64_t end);

enum { RLXC_OPEN = 1 << 30, RLXC_SPINS = 4000, RLXC_MOST_THREADS = 1024 };

// What threads write often has cache lines of its own.
static struct {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int wanted, usual;  // threads: set by rlxc_use_threads (0: unset), and the default
  int running;        // threads of the pool, including a caller
  int taken, sleeping;
  rlxc_loop_body body __attribute__((aligned(64)));
  const void* args;
  int64_t count, least, shares;  // tasks, and the fewest of a piece
  int limit;                     // most threads in the loop
  unsigned round;
  int64_t next __attribute__((aligned(64)));
  int inside __attribute__((aligned(64)));  // threads working on the loop, plus RLXC_OPEN while more may join
} rlxc_pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .running = 1};

static void rlxc_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Guided self-scheduling (Polychronopoulos and Kuck 1987): a piece is a share of what is left, so the last ones are small.
static void rlxc_take_pieces(void) {
  const int64_t count = rlxc_pool.count;
  for (int64_t begin = __atomic_load_n(&rlxc_pool.next, __ATOMIC_RELAXED); begin < count;) {
    const int64_t share = (count - begin) / rlxc_pool.shares, piece = share < rlxc_pool.least ? rlxc_pool.least : share;
    const int64_t end = count - begin < piece ? count : begin + piece;
    if (!__atomic_compare_exchange_n(&rlxc_pool.next, &begin, end, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
    rlxc_pool.body(rlxc_pool.args, begin, end);
    begin = __atomic_load_n(&rlxc_pool.next, __ATOMIC_RELAXED);
  }
}

static unsigned rlxc_next_round(unsigned seen) {
  unsigned round = seen;
  for (int i = 0; i < RLXC_SPINS; ++i) {
    round = __atomic_load_n(&rlxc_pool.round, __ATOMIC_SEQ_CST);
    if (round != seen) return round;
    rlxc_pause();
  }
  pthread_mutex_lock(&rlxc_pool.lock);
  __atomic_add_fetch(&rlxc_pool.sleeping, 1, __ATOMIC_SEQ_CST);
  while ((round = __atomic_load_n(&rlxc_pool.round, __ATOMIC_SEQ_CST)) == seen) pthread_cond_wait(&rlxc_pool.wake, &rlxc_pool.lock);
  __atomic_sub_fetch(&rlxc_pool.sleeping, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&rlxc_pool.lock);
  return round;
}

static int rlxc_may_join(int inside) {
  return (inside & RLXC_OPEN) && (inside & ~RLXC_OPEN) < __atomic_load_n(&rlxc_pool.limit, __ATOMIC_RELAXED);
}

static void* rlxc_worker(void* unused) {
  for (unsigned seen = 0;;) {
    seen = rlxc_next_round(seen);
    int inside = __atomic_load_n(&rlxc_pool.inside, __ATOMIC_RELAXED);
    int joined = 0;
    while (!joined && rlxc_may_join(inside))
      joined = __atomic_compare_exchange_n(&rlxc_pool.inside, &inside, inside + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    if (!joined) continue;
    rlxc_take_pieces();
    __atomic_sub_fetch(&rlxc_pool.inside, 1, __ATOMIC_RELEASE);
  }
  return unused;
}

static void rlxc_count_processors(void) {
  const char* wish = getenv("RLXC_THREADS");
  const long threads = wish ? strtol(wish, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
  rlxc_pool.usual = threads < 1 ? 1 : threads > RLXC_MOST_THREADS ? RLXC_MOST_THREADS : (int)threads;
}

static int rlxc_threads(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const int wanted = __atomic_load_n(&rlxc_pool.wanted, __ATOMIC_RELAXED);
  if (wanted > 0) return wanted;
  pthread_once(&once, rlxc_count_processors);
  return rlxc_pool.usual;
}

// Called by one thread at a time. If thread creation fails, loops use the threads that exist.
static void rlxc_start(int threads) {
  for (pthread_t t; rlxc_pool.running < threads; ++rlxc_pool.running) {
    if (pthread_create(&t, NULL, rlxc_worker, NULL) != 0) return;
    pthread_detach(t);
  }
}

void rlxc_use_threads(int threads);
void rlxc_use_threads(int threads) { __atomic_store_n(&rlxc_pool.wanted, threads, __ATOMIC_RELAXED); }

void rlxc_parallel_for(int64_t count, int64_t grain, rlxc_loop_body body, const void* args);
void rlxc_parallel_for(int64_t count, int64_t grain, rlxc_loop_body body, const void* args) {
  if (count <= 0) return;
  const int threads = rlxc_threads();
  // The pool serves one loop at a time. A second caller runs its loop alone.
  if (threads == 1 || count <= grain || __atomic_exchange_n(&rlxc_pool.taken, 1, __ATOMIC_ACQUIRE)) {
    body(args, 0, count);
    return;
  }
  rlxc_start(threads);
  rlxc_pool.body = body, rlxc_pool.args = args, rlxc_pool.count = count;
  rlxc_pool.least = grain < 1 ? 1 : grain, rlxc_pool.shares = 2 * threads;
  rlxc_pool.next = 0;
  __atomic_store_n(&rlxc_pool.limit, threads - 1, __ATOMIC_RELAXED);
  __atomic_store_n(&rlxc_pool.inside, RLXC_OPEN, __ATOMIC_RELEASE);
  __atomic_add_fetch(&rlxc_pool.round, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&rlxc_pool.sleeping, __ATOMIC_SEQ_CST) > 0) {
    pthread_mutex_lock(&rlxc_pool.lock);
    pthread_cond_broadcast(&rlxc_pool.wake);
    pthread_mutex_unlock(&rlxc_pool.lock);
  }
  rlxc_take_pieces();
  __atomic_fetch_and(&rlxc_pool.inside, ~RLXC_OPEN, __ATOMIC_RELAXED);
  for (int i = 0; __atomic_load_n(&rlxc_pool.inside, __ATOMIC_ACQUIRE); ++i)
    if (i < RLXC_SPINS) rlxc_pause();
    else sched_yield();
  __atomic_store_n(&rlxc_pool.taken, 0, __ATOMIC_RELEASE);
}
