//! The shim's I/O methods: pass on to the wrapped file, then take note.
//!
//! SQLite allocates one block per open file, of the size the VFS asks for: [`ShimFile`] at its
//! start, the wrapped VFS's own file object [`REAL_AT`] bytes further on.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::path::PathBuf;
use std::{ptr, slice};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods};

use crate::state::Shared;

/// Where the wrapped file object starts: aligned for whatever it may hold.
pub(crate) const REAL_AT: usize = size_of::<ShimFile>().next_multiple_of(16);

/// A file that is counted and recorded.
pub(crate) struct Tracked {
    pub(crate) shared: &'static Shared,
    pub(crate) path: PathBuf,
}

/// What SQLite sees as the open file; `base` must come first.
#[repr(C)]
struct ShimFile {
    base: sqlite3_file,
    /// Nothing for temporary files: they do not outlive a power cut.
    tracked: Option<Tracked>,
}

/// The wrapped file object behind a shim file.
///
/// # Safety
/// `file` must point into a block of at least `REAL_AT` bytes, as SQLite allocates it.
pub(crate) unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the caller vouches for the size of the block.
    unsafe { file.byte_add(REAL_AT) }
}

/// Turns the block into a shim file once the wrapped file at its end is open.
///
/// # Safety
/// `file` must be the block SQLite passed to xOpen, with an open wrapped file at [`real`].
pub(crate) unsafe fn attach(file: *mut sqlite3_file, tracked: Option<Tracked>) {
    // SAFETY: the block is ours to initialise; `write` does not drop what it held before.
    unsafe {
        let version = (*(*real(file)).pMethods).iVersion.clamp(1, 3);
        let base = sqlite3_file {
            pMethods: &METHODS[version as usize - 1],
        };
        ptr::write(file.cast::<ShimFile>(), ShimFile { base, tracked });
    }
}

/// What is tracked about a shim file.
///
/// # Safety
/// `file` must be an attached shim file, and stay open while the result is used.
unsafe fn tracked<'a>(file: *mut sqlite3_file) -> Option<&'a Tracked> {
    // SAFETY: attached, so initialised; SQLite uses a file from one thread at a time.
    unsafe { (*file.cast::<ShimFile>()).tracked.as_ref() }
}

/// Defines methods that only call the wrapped file's method of the same name.
macro_rules! pass {
    ($($shim:ident = $method:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?, else $absent:expr;)*) => {$(
        unsafe extern "C" fn $shim(file: *mut sqlite3_file, $($arg: $ty),*) $(-> $ret)? {
            // SAFETY: SQLite calls this on an open shim file, whose wrapped file is open; the
            // arguments are SQLite's own and meant for that method.
            unsafe {
                let real = real(file);
                match (*(*real).pMethods).$method {
                    Some(method) => method(real, $($arg),*),
                    None => $absent,
                }
            }
        }
    )*};
}

pass! {
    x_read = xRead(buf: *mut c_void, len: c_int, at: sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_READ;
    real_write = xWrite(buf: *const c_void, len: c_int, at: sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_WRITE;
    real_truncate = xTruncate(size: sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_TRUNCATE;
    real_sync = xSync(flags: c_int) -> c_int, else ffi::SQLITE_IOERR_FSYNC;
    real_close = xClose() -> c_int, else ffi::SQLITE_OK;
    x_file_size = xFileSize(size: *mut sqlite3_int64) -> c_int, else ffi::SQLITE_IOERR_FSTAT;
    x_lock = xLock(level: c_int) -> c_int, else ffi::SQLITE_IOERR_LOCK;
    x_unlock = xUnlock(level: c_int) -> c_int, else ffi::SQLITE_IOERR_UNLOCK;
    x_check_reserved = xCheckReservedLock(out: *mut c_int) -> c_int, else ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    real_control = xFileControl(op: c_int, arg: *mut c_void) -> c_int, else ffi::SQLITE_NOTFOUND;
    x_sector_size = xSectorSize() -> c_int, else 0;
    x_characteristics = xDeviceCharacteristics() -> c_int, else 0;
    x_shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int, else ffi::SQLITE_IOERR_SHMMAP;
    x_shm_lock = xShmLock(offset: c_int, n: c_int, flags: c_int) -> c_int, else ffi::SQLITE_IOERR_SHMLOCK;
    x_shm_barrier = xShmBarrier(), else ();
    x_shm_unmap = xShmUnmap(delete: c_int) -> c_int, else ffi::SQLITE_OK;
    x_fetch = xFetch(at: sqlite3_int64, len: c_int, out: *mut *mut c_void) -> c_int, else ffi::SQLITE_IOERR_MMAP;
    x_unfetch = xUnfetch(at: sqlite3_int64, page: *mut c_void) -> c_int, else ffi::SQLITE_OK;
}

unsafe extern "C" fn x_write(
    file: *mut sqlite3_file,
    buf: *const c_void,
    len: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this on an open shim file.
    let tracked = unsafe { tracked(file) };
    if let Some(code) = tracked.and_then(|t| t.shared.fault_due()) {
        return code;
    }
    // SAFETY: the arguments are passed on as they came.
    let rc = unsafe { real_write(file, buf, len, at) };
    if let (ffi::SQLITE_OK, Some(t)) = (rc, tracked) {
        // SAFETY: the contract of xWrite: `buf` holds `len` readable bytes during the call.
        let data = unsafe { slice::from_raw_parts(buf.cast::<u8>(), len as usize) };
        t.shared.wrote(&t.path, at as u64, data);
    }
    rc
}

unsafe extern "C" fn x_truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: SQLite calls this on an open shim file; the arguments are passed on.
    let (rc, tracked) = unsafe { (real_truncate(file, size), tracked(file)) };
    if let (ffi::SQLITE_OK, Some(t)) = (rc, tracked) {
        t.shared.truncated(&t.path, size as u64);
    }
    rc
}

unsafe extern "C" fn x_sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this on an open shim file.
    let tracked = unsafe { tracked(file) };
    let covers = tracked.map_or(0, |t| t.shared.sync_begins());
    // SAFETY: the arguments are passed on as they came.
    let rc = unsafe { real_sync(file, flags) };
    if let (ffi::SQLITE_OK, Some(t)) = (rc, tracked) {
        t.shared.synced(&t.path, covers);
    }
    rc
}

unsafe extern "C" fn x_file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this on an open shim file; the arguments are passed on.
    unsafe {
        // With memory mapping on, the unix VFS would follow this hint by growing the file behind
        // the log's back. It is only a hint.
        if op == ffi::SQLITE_FCNTL_SIZE_HINT && tracked(file).is_some() {
            return ffi::SQLITE_OK;
        }
        real_control(file, op, arg)
    }
}

unsafe extern "C" fn x_close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open shim file once, from one thread, and does not use it after;
    // dropping the field in place is therefore its last use.
    unsafe {
        let rc = real_close(file);
        ptr::drop_in_place(&raw mut (*file.cast::<ShimFile>()).tracked);
        rc
    }
}

/// The tables for wrapped files of version 1, 2 (shared memory) and 3 (memory mapping): SQLite
/// concludes from the version what a file can do.
static METHODS: [sqlite3_io_methods; 3] = [methods(1), methods(2), methods(3)];

const fn methods(version: c_int) -> sqlite3_io_methods {
    sqlite3_io_methods {
        iVersion: version,
        xClose: Some(x_close),
        xRead: Some(x_read),
        xWrite: Some(x_write),
        xTruncate: Some(x_truncate),
        xSync: Some(x_sync),
        xFileSize: Some(x_file_size),
        xLock: Some(x_lock),
        xUnlock: Some(x_unlock),
        xCheckReservedLock: Some(x_check_reserved),
        xFileControl: Some(x_file_control),
        xSectorSize: Some(x_sector_size),
        xDeviceCharacteristics: Some(x_characteristics),
        xShmMap: Some(x_shm_map),
        xShmLock: Some(x_shm_lock),
        xShmBarrier: Some(x_shm_barrier),
        xShmUnmap: Some(x_shm_unmap),
        xFetch: Some(x_fetch),
        xUnfetch: Some(x_unfetch),
    }
}
