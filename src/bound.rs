//! Plans bound to a device's executables, and whom to blame when one of their launches fails.

use std::sync::Arc;

use smallvec::SmallVec;
use systole_fusion::cache::PlanCache;
use systole_fusion::canonical::{GroupKey, PlanKey};
use systole_fusion::ir::{NodeId, Opcode, Origin, Trace};
use systole_fusion::lower::lower;
use systole_fusion::plan::{Plan, PlanConfig};
use systole_hal::{DeviceRef, ExecutableRef, HalError, Label};
use systole_kernels::TensorType;

use crate::error::Error;

/// A plan with the device's executables for its launches.
pub(crate) struct BoundPlan {
    pub(crate) plan: Plan,
    /// One per launch, in step order.
    pub(crate) executables: Vec<ExecutableRef>,
    /// For each of them whether it was new to the device when this was bound.
    pub(crate) new: Vec<bool>,
}

impl BoundPlan {
    /// Builds the plan for a key, fused or op by op, and compiles what the device does not have yet.
    pub(crate) fn build(
        key: &PlanKey,
        fuse: bool,
        device: &DeviceRef,
        programs: &PlanCache<ExecutableRef, GroupKey>,
    ) -> Result<Self, HalError> {
        let _span = tracing::debug_span!("build", key = key.hash64()).entered();
        let plan = Plan::build(key, &PlanConfig { fuse });
        let mut new = Vec::new();
        let executables = plan
            .launches()
            .map(|launch| {
                let compile = || device.compile(lower(&launch.group));
                let (executable, built) = programs.get_or_try_build(&launch.group, compile)?;
                new.push(built);
                Ok(ExecutableRef::clone(&executable))
            })
            .collect::<Result<_, HalError>>()?;
        Ok(BoundPlan { plan, executables, new })
    }
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
