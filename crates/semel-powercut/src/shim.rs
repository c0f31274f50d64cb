//! The VFS object as SQLite sees it: registration, opening and deleting.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_vfs};

use crate::error::Error;
use crate::file::{REAL_AT, Tracked, attach, real};
use crate::log::Event;
use crate::state::Shared;

/// The files whose fate matters after a power cut.
const DURABLE: c_int = ffi::SQLITE_OPEN_MAIN_DB
    | ffi::SQLITE_OPEN_WAL
    | ffi::SQLITE_OPEN_MAIN_JOURNAL
    | ffi::SQLITE_OPEN_SUPER_JOURNAL;

/// What the C side finds behind `pAppData`.
struct Glue {
    inner: *mut sqlite3_vfs,
    shared: &'static Shared,
}

/// Registers the VFS object. What SQLite keeps pointers to is leaked: it may use them until the
/// process ends.
pub(crate) fn register(name: &str) -> Result<&'static Shared, Error> {
    let c_name = CString::new(name).map_err(|_| Error::BadName)?;
    // SAFETY: both are NUL-terminated or null, and SQLite initialises itself.
    let (inner, taken) = unsafe {
        (
            ffi::sqlite3_vfs_find(ptr::null()),
            ffi::sqlite3_vfs_find(c_name.as_ptr()),
        )
    };
    if inner.is_null() {
        return Err(Error::NoDefaultVfs);
    }
    if !taken.is_null() {
        return Err(Error::NameTaken(name.to_owned()));
    }
    let shared: &'static Shared = Box::leak(Box::default());
    let glue = Box::into_raw(Box::new(Glue { inner, shared }));
    // SAFETY: a registered VFS stays valid; the default one is never unregistered.
    let vfs = unsafe { shim(&*inner, c_name.into_raw(), glue) };
    // SAFETY: the object and all it points to are leaked, hence valid for ever.
    match unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0) } {
        ffi::SQLITE_OK => Ok(shared),
        code => Err(Error::Register(code)),
    }
}

fn shim(inner: &sqlite3_vfs, name: *const c_char, glue: *mut Glue) -> sqlite3_vfs {
    sqlite3_vfs {
        // Version 3 adds the replacement of system calls, which stays with the wrapped VFS.
        iVersion: inner.iVersion.min(2),
        szOsFile: REAL_AT as c_int + inner.szOsFile,
        mxPathname: inner.mxPathname,
        pNext: ptr::null_mut(),
        zName: name,
        pAppData: glue.cast(),
        xOpen: Some(x_open),
        xDelete: Some(x_delete),
        xAccess: Some(x_access),
        xFullPathname: Some(x_full_pathname),
        xDlOpen: Some(x_dl_open),
        xDlError: Some(x_dl_error),
        xDlSym: Some(x_dl_sym),
        xDlClose: Some(x_dl_close),
        xRandomness: Some(x_randomness),
        xSleep: Some(x_sleep),
        xCurrentTime: Some(x_current_time),
        xGetLastError: Some(x_get_last_error),
        xCurrentTimeInt64: Some(x_current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

/// # Safety
/// `vfs` must be a VFS object made by [`shim`].
unsafe fn glue(vfs: *mut sqlite3_vfs) -> &'static Glue {
    // SAFETY: `register` put a leaked `Glue` there.
    unsafe { &*(*vfs).pAppData.cast::<Glue>() }
}

/// # Safety
/// `name` must be null or NUL-terminated.
unsafe fn path_of(name: *const c_char) -> Option<PathBuf> {
    // SAFETY: checked for null; the caller vouches for the rest.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    Some(PathBuf::from(name.to_string_lossy().into_owned()))
}

unsafe extern "C" fn x_open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the VFS we registered and a name that is null or NUL-terminated.
    let (glue, path) = unsafe { (glue(vfs), path_of(name)) };
    let path = path.filter(|_| flags & DURABLE != 0);
    let mut tapes = glue.shared.tapes();
    let existed = path.as_ref().is_some_and(|path| path.exists());
    // SAFETY: `file` is a block of the size we asked for.
    let rc = unsafe { open_real(glue.inner, name, file, flags, out) };
    if rc == ffi::SQLITE_OK {
        if let Some(path) = path.as_ref().filter(|path| !existed && path.exists()) {
            tapes.append(path, |file| Event::Create { file });
        }
        let tracked = path.map(|path| Tracked {
            shared: glue.shared,
            path,
        });
        // SAFETY: the wrapped file is open.
        unsafe { attach(file, tracked) };
    }
    rc
}

/// Opens the wrapped file; after a failure nothing is left open.
///
/// # Safety
/// The arguments must be those of xOpen, `file` a block of the size the shim asks for.
unsafe fn open_real(
    inner: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: the wrapped VFS gets its part of the block and SQLite's own arguments. It may leave
    // methods set after a failure, which asks for a close; null for the shim tells SQLite that
    // there is nothing more to close.
    unsafe {
        let real = real(file);
        (*file).pMethods = ptr::null();
        (*real).pMethods = ptr::null();
        let Some(open) = (*inner).xOpen else {
            return ffi::SQLITE_CANTOPEN;
        };
        let rc = open(inner, name, real, flags, out);
        if rc != ffi::SQLITE_OK
            && !(*real).pMethods.is_null()
            && let Some(close) = (*(*real).pMethods).xClose
        {
            close(real);
        }
        rc
    }
}

unsafe extern "C" fn x_delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: SQLite passes the VFS we registered and a NUL-terminated name.
    let (glue, path) = unsafe { (glue(vfs), path_of(name)) };
    let mut tapes = glue.shared.tapes();
    // SAFETY: the arguments are passed on as they came.
    let rc = unsafe { real_delete(vfs, name, sync_dir) };
    // The file is gone even if only the sync of its directory failed.
    if matches!(rc, ffi::SQLITE_OK | ffi::SQLITE_IOERR_DIR_FSYNC) {
        let dir_synced = rc == ffi::SQLITE_OK && sync_dir & 1 != 0;
        if let Some(path) = path {
            tapes.append(&path, |file| Event::Delete { file, dir_synced });
        }
    }
    rc
}

type Symbol = Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void, *const c_char)>;

/// Defines methods that only call the wrapped VFS's method of the same name.
macro_rules! pass {
    ($($shim:ident = $method:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?, else $absent:expr;)*) => {$(
        unsafe extern "C" fn $shim(vfs: *mut sqlite3_vfs, $($arg: $ty),*) $(-> $ret)? {
            // SAFETY: SQLite calls this on the VFS we registered; the arguments are SQLite's own
            // and meant for that method.
            unsafe {
                let inner = glue(vfs).inner;
                match (*inner).$method {
                    Some(method) => method(inner, $($arg),*),
                    None => $absent,
                }
            }
        }
    )*};
}

pass! {
    real_delete = xDelete(name: *const c_char, sync_dir: c_int) -> c_int, else ffi::SQLITE_IOERR_DELETE;
    x_access = xAccess(name: *const c_char, flags: c_int, out: *mut c_int) -> c_int, else ffi::SQLITE_IOERR_ACCESS;
    x_full_pathname = xFullPathname(name: *const c_char, len: c_int, out: *mut c_char) -> c_int, else ffi::SQLITE_CANTOPEN;
    x_dl_open = xDlOpen(name: *const c_char) -> *mut c_void, else ptr::null_mut();
    x_dl_error = xDlError(len: c_int, out: *mut c_char), else ();
    x_dl_sym = xDlSym(handle: *mut c_void, symbol: *const c_char) -> Symbol, else None;
    x_dl_close = xDlClose(handle: *mut c_void), else ();
    x_randomness = xRandomness(len: c_int, out: *mut c_char) -> c_int, else 0;
    x_sleep = xSleep(microseconds: c_int) -> c_int, else 0;
    x_current_time = xCurrentTime(out: *mut f64) -> c_int, else ffi::SQLITE_ERROR;
    x_get_last_error = xGetLastError(len: c_int, out: *mut c_char) -> c_int, else 0;
    x_current_time_int64 = xCurrentTimeInt64(out: *mut sqlite3_int64) -> c_int, else ffi::SQLITE_ERROR;
}
