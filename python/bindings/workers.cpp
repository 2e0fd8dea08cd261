// Threads are kept for the next run: to begin one and to end it takes longer than a small kernel. After a fork the
// child has none of them, and begins its own.
#include "python/bindings/workers.hpp"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kpu::bindings {

struct Worker::Thread {
    std::mutex mutex;
    std::condition_variable changed;
    const std::function<void()>* work = nullptr;  ///< null: idle

    void serve() {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [this] { return work != nullptr; });
            const std::function<void()>& given = *work;
            lock.unlock();
            given();
            lock.lock();
            work = nullptr;
            changed.notify_all();
        }
    }
};

struct Worker::Pool {
    std::mutex mutex;
    std::vector<Thread*> idle;
};

/// Neither it nor its threads are ever destroyed: they may outlive main.
Worker::Pool*& Worker::pool() {
    static Pool* current = [] {
        pthread_atfork([] { pool()->mutex.lock(); }, [] { pool()->mutex.unlock(); },
                       [] { pool() = new Pool; });
        return new Pool;
    }();
    return current;
}

/// Begins a thread; null where the system gives no more.
Worker::Thread* Worker::begun() {
    auto thread = std::make_unique<Thread>();
    try {
        std::thread([served = thread.get()] { served->serve(); }).detach();
    } catch (const std::system_error&) {
        return nullptr;
    }
    return thread.release();
}

Worker::Worker(const std::function<void()>& work) {
    {
        const std::lock_guard lock(pool()->mutex);
        thread_ = pool()->idle.empty() ? nullptr : pool()->idle.back();
        if (thread_ != nullptr) pool()->idle.pop_back();
    }
    if (thread_ == nullptr) thread_ = begun();
    if (thread_ == nullptr) {
        work();
        return;
    }
    const std::lock_guard lock(thread_->mutex);
    thread_->work = &work;
    thread_->changed.notify_all();
}

bool Worker::wait(int period_ms) {
    if (thread_ == nullptr) return true;
    std::unique_lock lock(thread_->mutex);
    return thread_->changed.wait_for(lock, std::chrono::milliseconds(period_ms),
                                     [this] { return thread_->work == nullptr; });
}

Worker::~Worker() {
    if (thread_ == nullptr) return;
    const std::lock_guard lock(pool()->mutex);
    pool()->idle.push_back(thread_);
}

}  // namespace kpu::bindings
