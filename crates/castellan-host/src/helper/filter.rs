//! The system calls that are refused where a command is to reach no network.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::io;

use nix::libc::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, EPERM, NETLINK_ROUTE, SYS_io_uring_setup, SYS_socket,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// Marks a call of the x32 interface, which is another way in on x86-64.
const X32: i64 = 0x4000_0000;

/// Which sockets stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Local ones only.
    Local,
    /// Also those of the internet, where the command has a network of its own that leads nowhere.
    Internet,
}

/// Refuses this thread, and what it starts, all other sockets. Besides local ones, the kernel may
/// be asked about its own interfaces (`NETLINK_ROUTE`), which many programs do at their start.
///
/// `io_uring` goes altogether: it makes sockets past any such filter.
pub(super) fn cut_off(sockets: Sockets) -> io::Result<()> {
    let program = program(sockets).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

fn program(sockets: Sockets) -> Result<BpfProgram, BackendError> {
    let mut other = vec![isnt(0, AF_UNIX)?, isnt(0, AF_NETLINK)?];
    if sockets == Sockets::Internet {
        other.extend([isnt(0, AF_INET)?, isnt(0, AF_INET6)?]);
    }
    let netlink = vec![is(0, AF_NETLINK)?, isnt(2, NETLINK_ROUTE)?];
    let rules = vec![SeccompRule::new(other)?, SeccompRule::new(netlink)?];
    let mut all = BTreeMap::from([
        (SYS_socket, rules.clone()),
        // No condition: refused whatever is asked.
        (SYS_io_uring_setup, Vec::new()),
    ]);
    if ARCH == "x86_64" {
        all.insert(SYS_socket | X32, rules);
        all.insert(SYS_io_uring_setup | X32, Vec::new());
    }
    let refuse = SeccompAction::Errno(EPERM.unsigned_abs());
    SeccompFilter::new(
        all,
        SeccompAction::Allow,
        refuse,
        TargetArch::try_from(ARCH)?,
    )?
    .try_into()
}

fn is(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    compare(argument, SeccompCmpOp::Eq, value)
}

fn isnt(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    compare(argument, SeccompCmpOp::Ne, value)
}

fn compare(
    argument: u8,
    operator: SeccompCmpOp,
    value: i32,
) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(value.unsigned_abs());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}
