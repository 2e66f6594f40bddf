//! Executables: a checked program and the machine that runs it.

use std::fmt;

use systole_kernels::machine::Machine;
use systole_kernels::program::Program;

use crate::device::{DeviceId, Executable};

/// A compiled program.
pub(super) struct SimExecutable {
    device: DeviceId,
    machine: Machine,
}

impl SimExecutable {
    pub(super) fn new(device: DeviceId, machine: Machine) -> Self {
        SimExecutable { device, machine }
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Executable for SimExecutable {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn program(&self) -> &Program {
        self.machine.program()
    }

    fn fingerprint(&self) -> u64 {
        self.machine.fingerprint()
    }
}

impl fmt::Debug for SimExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimExecutable({})", self.name())
    }
}
