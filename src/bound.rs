//! Plans bound to a device's executables, and whom to blame when one of their launches fails.
//!
//! A plan holds no extents, and mostly neither do its programs: then a launch has one executable, found once and kept
//! with the plan. A device of static shapes wants a program for each set of extents; those are kept in the device's
//! cache alone, by group and extents, where the least recently used go when there are too many. Compiled is what a launch
//! asks for when it is submitted, so a program that cannot be compiled fails what it computes, and not its plan.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use systole_fusion::cache::PlanCache;
use systole_fusion::canonical::{GroupKey, Params, PlanKey};
use systole_fusion::ir::{NodeId, Opcode, Origin, Trace};
use systole_fusion::lower::lower;
use systole_fusion::plan::{self, Plan, PlanConfig};
use systole_hal::{DeviceRef, ExecutableRef, HalError, Label};
use systole_kernels::TensorType;

use crate::error::Error;

/// A plan with what the device has for its launches.
pub(crate) struct BoundPlan {
    pub(crate) plan: Plan,
    /// One per launch, in step order.
    launches: Vec<BoundLaunch>,
}

#[derive(Default)]
struct BoundLaunch {
    /// The executable for all extents, once there is one; never where the device's shapes are static.
    executable: OnceLock<ExecutableRef>,
    /// The group op by op, once it had to run so.
    op_by_op: OnceLock<Arc<BoundPlan>>,
}

/// What an executable is compiled from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ProgramKey {
    group: GroupKey,
    /// The launch parameters that are written into the program; `None` where it takes any.
    extents: Option<Params>,
}

/// A device's executables.
pub(crate) type Programs = PlanCache<ExecutableRef, ProgramKey>;
/// A device's plans of groups op by op: one for the same group in all layers of a model.
pub(crate) type Parts = PlanCache<BoundPlan, GroupKey>;

impl BoundPlan {
    /// The plan for a key, fused or op by op.
    pub(crate) fn build(key: &PlanKey, fuse: bool) -> Self {
        let _span = tracing::debug_span!("build", key = key.hash64(), fuse).entered();
        let plan = Plan::build(key, &PlanConfig { fuse });
        let launches = plan.launches().map(|_| BoundLaunch::default()).collect();
        BoundPlan { plan, launches }
    }

    /// The executable of `launch`, number `at`, with these launch parameters; whether it was given to the compiler now.
    /// It may still be compiled in the background.
    pub(crate) fn executable(
        &self,
        at: usize,
        launch: &plan::Launch,
        params: &[i64],
        device: &DeviceRef,
        programs: &Programs,
    ) -> Result<(ExecutableRef, bool), HalError> {
        let for_all = &self.launches[at].executable;
        if let Some(executable) = for_all.get() {
            return Ok((executable.clone(), false));
        }
        let exact = device.capabilities().static_shapes;
        let key = ProgramKey { group: launch.group.clone(), extents: exact.then(|| params.into()) };
        let (executable, built) = programs.get_or_try_build(&key, || {
            let program = lower(&launch.group);
            device.compile(if exact { program.specialize(params) } else { program })
        })?;
        let executable = ExecutableRef::clone(&executable);
        if !exact {
            // Another thread may have been first, with the same one.
            let _ = for_all.set(executable.clone());
        }
        Ok((executable, built))
    }

    /// The plan of `launch`, number `at`, op by op.
    pub(crate) fn op_by_op(&self, at: usize, launch: &plan::Launch, parts: &Parts) -> &Arc<BoundPlan> {
        self.launches[at].op_by_op.get_or_init(|| planned(&launch.group, parts, false).0)
    }
}

/// The plan for a key, and whether it was built now.
pub(crate) fn planned<K>(key: &K, plans: &PlanCache<BoundPlan, K>, fuse: bool) -> (Arc<BoundPlan>, bool)
where
    K: AsRef<PlanKey> + Clone + Eq + Hash,
{
    let Ok(found) = plans.get_or_try_build(key, || Ok::<_, Infallible>(BoundPlan::build(key.as_ref(), fuse)));
    found
}

/// What a launch's label carries: enough to name the op and the line, should it fail. It holds copies, so that the
/// recorder can fill the trace's storage again while the launch is still queued.
struct Blame {
    op: Opcode,
    operands: SmallVec<[TensorType; 3]>,
    origin: Origin,
    plan: Arc<BoundPlan>,
    launch: usize,
}

/// The label of launch number `launch` of a plan for `trace`; `output` is the node of the plan it is blamed on.
pub(crate) fn label(trace: &Trace, plan: &Arc<BoundPlan>, launch: usize, output: NodeId) -> Label {
    let node = trace.node(trace.node_of_result(output.index()).expect("a plan's nodes are a trace's results"));
    Label::new(Arc::new(Blame {
        op: node.op,
        operands: node.operands.iter().map(|&value| trace.ty(value).clone()).collect(),
        origin: node.origin.clone(),
        plan: plan.clone(),
        launch,
    }))
}

/// The user's error for a device error: the op and line of the launch that failed first, where its label tells, and
/// `fallback` otherwise.
pub(crate) fn blame(error: &HalError, fallback: &Origin) -> Error {
    match error.label().downcast::<Blame>() {
        Some(blame) => {
            let mut launches = blame.plan.plan.launches();
            let launch = launches.nth(blame.launch).expect("the label was made for a launch of this plan");
            let error = if launch.nodes.len() > 1 {
                HalError::new(error.kind(), format!("{}, in the fused program {}", error.message(), launch.name))
            } else {
                error.clone()
            };
            Error::from_hal(&error, Some(blame.op), blame.operands.to_vec(), blame.origin.clone())
        }
        None => Error::from_hal(error, None, Vec::new(), fallback.clone()),
    }
}
