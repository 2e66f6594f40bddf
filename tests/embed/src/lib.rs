//! A small backend outside Systole: the front end calls ops by name, from lines of its own language.
//!
//! It uses the `systole` crate alone, and of that what [`systole::embed`] lists: ops are recorded by opcode with the
//! front end's own lines; arrays live in the front end's arena and are shared without copies; kernels run on the front
//! end's threads. docs/embedding.md walks through it.

mod arena;
mod ops;
mod pool;

use std::fmt;
use std::sync::Arc;

use systole::embed::{HostBytes, Origin, Parallel};
use systole::{Config, DType, Device, Result, Stream, Tensor};

pub use arena::{Arena, Floats};
pub use pool::HostPool;

/// A line of the front end's program.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// File.
    pub file: &'a str,
    /// Line, from 1.
    pub line: u32,
}

impl From<Line<'_>> for Origin {
    fn from(Line { file, line }: Line<'_>) -> Self {
        Origin::Named(format!("{file}:{line}").into())
    }
}

/// The front end's handle to an array. It may be dropped on any thread.
#[derive(Clone, Debug)]
pub struct Array(Tensor);

impl Array {
    /// Extents.
    pub fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    /// Waits for the elements and borrows them, without a copy.
    ///
    /// # Errors
    /// The value failed; the error names the line of the op that did.
    pub fn read(&self) -> Result<Read> {
        Ok(Read(self.0.to_host()?))
    }
}

/// Elements of an array, borrowed from the device.
#[derive(Clone)]
pub struct Read(HostBytes);

impl Read {
    /// The floats.
    pub fn floats(&self) -> &[f32] {
        bytemuck::cast_slice((*self.0).as_ref())
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} floats", self.floats().len())
    }
}

/// The backend: one device, on the front end's threads.
#[derive(Clone, Debug)]
pub struct Backend {
    device: Device,
}

impl Backend {
    /// Opens a device whose kernels run on `pool`. Nothing is started before the first op runs.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn open(pool: Arc<dyn Parallel>) -> Result<Self> {
        Ok(Backend { device: Device::open(Config { parallel: Some(pool), ..Config::default() })? })
    }

    /// Opens a device with these settings.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn open_with(config: Config) -> Result<Self> {
        Ok(Backend { device: Device::open(config)? })
    }

    /// The device, for its statistics and reports.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A stream of its own, for a thread that wants one.
    pub fn stream(&self) -> Stream {
        Stream::new(&self.device)
    }

    /// An array that is a part of the front end's arena: no element is copied.
    ///
    /// # Errors
    /// The elements do not fill the shape.
    pub fn share(&self, floats: Floats, shape: &[usize]) -> Result<Array> {
        Tensor::from_host(&self.device, DType::F32, Arc::new(floats), shape.to_vec()).map(Array)
    }

    /// Calls an op by name, at a line of the front end's program.
    ///
    /// # Errors
    /// There is no such op, or its arguments do not fit; the error names `line`.
    pub fn call(&self, name: &str, args: &[&Array], numbers: &[i64], line: Line<'_>) -> Result<Array, CallError> {
        let args: Vec<&Tensor> = args.iter().map(|array| &array.0).collect();
        let op = ops::find(name).ok_or_else(|| CallError::Unknown(name.to_owned()))?;
        let call = ops::Call { stream: Stream::current(&self.device), args: &args, numbers, origin: line.into() };
        Ok(Array(op(&call)?))
    }
}

/// Why a call was refused.
#[derive(Clone, Debug)]
pub enum CallError {
    /// No op has this name.
    Unknown(String),
    /// The op's arguments do not fit.
    Refused(systole::Error),
}

impl From<systole::Error> for CallError {
    fn from(error: systole::Error) -> Self {
        CallError::Refused(error)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Unknown(name) => write!(f, "no op is called {name}"),
            CallError::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for CallError {}
