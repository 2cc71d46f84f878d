// SPDX-License-Identifier: MIT
//! The caller's threads.

use crate::sys;
use std::any::Any;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Threads for the library, which starts none. The results are the same bytes with any number.
pub trait Parallel: Send + Sync {
    /// Calls `piece` about `count` times, on any threads at once. Each call does one piece of the work, and returns
    /// false if nothing was left to do. What is not done when this returns is done on the calling thread, so too few
    /// calls are slow, and too many harmless. A panic does not pass through the library: the work is done all the
    /// same, and then the call that needed it panics.
    fn run(&self, count: usize, piece: &(dyn Fn() -> bool + Sync));
}

/// As many threads, started for each call and the calling thread among them. A pool of threads that stay, such as
/// rayon's, costs less.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

impl Parallel for Threads {
    fn run(&self, count: usize, piece: &(dyn Fn() -> bool + Sync)) {
        let work = || while piece() {};
        thread::scope(|scope| {
            for _ in 1..self.0.min(count) {
                // one that does not start leaves its work to the others
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }
}

/// What `tlc_parallel.opaque` points to.
pub(crate) struct Pool {
    threads: Arc<dyn Parallel>,
    /// Of `threads`, until the call of the library has returned.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Pool {
    /// In an `Arc`, so that it stays where it is.
    pub fn new(threads: &Option<Arc<dyn Parallel>>) -> Option<Arc<Pool>> {
        threads.as_ref().map(|threads| Arc::new(Pool { threads: Arc::clone(threads), panic: Mutex::new(None) }))
    }

    /// For calls that end while the pool lives.
    pub fn parallel(pool: &Option<Arc<Pool>>) -> sys::tlc_parallel {
        match pool {
            Some(pool) => sys::tlc_parallel { run: Some(run), opaque: Arc::as_ptr(pool) as *mut c_void },
            None => sys::tlc_parallel { run: None, opaque: std::ptr::null_mut() },
        }
    }

    /// Panics if the threads of the last call did.
    pub fn resume(pool: &Option<Arc<Pool>>) {
        let panic = pool.as_ref().and_then(|pool| pool.panic.lock().unwrap().take());
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

/// The work of one call of `run`.
struct Work {
    task: sys::tlc_task,
    arg: *mut c_void,
    count: usize,
    next: AtomicUsize,
}

// SAFETY: the library allows any thread to call task, once for each i, and `piece` sees to that
unsafe impl Sync for Work {}

impl Work {
    fn piece(&self) -> bool {
        let next = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |i| (i < self.count).then(|| i + 1));
        // SAFETY: i is below count, and no other call has it
        next.map(|i| unsafe { (self.task)(self.arg, i) }).is_ok()
    }
}

unsafe extern "C" fn run(opaque: *mut c_void, count: usize, task: sys::tlc_task, arg: *mut c_void) {
    let pool = &*(opaque as *const Pool);
    let work = Work { task, arg, count, next: AtomicUsize::new(0) };
    // After a panic the rest is done here.
    let mut panic = pool.panic.lock().unwrap();
    if panic.is_none() {
        *panic = catch_unwind(AssertUnwindSafe(|| pool.threads.run(count, &|| work.piece()))).err();
    }
    while work.piece() {}
}
