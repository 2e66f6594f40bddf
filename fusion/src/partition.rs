//! Which nodes run together.
//!
//! Groups grow over members in program order. A member joins the groups of its producers, dearest edge first, merging
//! them where it may; failing that, a group of its siblings, which read what it reads; failing that, it starts a group.
//! A join must be legal ([`legality`]), pay ([`cost`]), and leave the graph of groups
//! without cycles: nothing may depend on a group that it also feeds by way of another.
//!
//! A value whose readers have not all been seen counts as needed outside, so a group is legal at every moment and no
//! later join can make it wrong. The result is data, with the refusals met on the edges that were not fused.
//!
//! Rejected: growing from the most expensive node outward, as whole-graph compilers do. It needs extents to know what
//! is expensive, and its plans change with distant parts of the trace; a loop body should give the same groups
//! wherever a trace begins.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;
use systole_kernels::program::Extent;

use crate::access::{Accesses, Role};
use crate::canonical::SymbolicTrace;
use crate::cost::{self, Gain};
use crate::ir::{NodeId, OpClass, ValueId};
use crate::legality::{self, Refusal};

/// Groups that read a value are remembered as siblings for its later readers, so many at most.
const SIBLINGS: usize = 4;

/// An edge between two launches that could have been within one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NotFused {
    /// Computes the value.
    pub producer: NodeId,
    /// Reads it.
    pub consumer: NodeId,
    /// Why they are apart.
    pub refusal: Refusal,
}

/// What runs together, in an order that respects dependencies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Partition {
    pub(crate) parts: Vec<Part>,
    pub(crate) not_fused: Vec<NotFused>,
}

/// One step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Members (indices of nodes, ascending) of one group.
    Group(Vec<u32>),
    /// A reshape that is an alias.
    Alias(u32),
}

/// Partitions a trace; without `fuse` each member is a group.
pub(crate) fn partition(trace: &SymbolicTrace, accesses: &Accesses, fuse: bool) -> Partition {
    let mut growth = Growth::new(trace, accesses);
    for node in 0..trace.nodes.len() {
        match accesses.role(node) {
            Role::Dead | Role::Folded => {}
            Role::Alias => growth.place_alias(node as u32),
            Role::Member => growth.place_member(node as u32, fuse),
        }
    }
    growth.finish()
}

type GroupIndex = u32;
const NO_GROUP: GroupIndex = GroupIndex::MAX;

/// A set of groups.
#[derive(Clone, Debug, Default)]
struct GroupSet(Vec<u64>);

impl GroupSet {
    fn contains(&self, group: GroupIndex) -> bool {
        self.0.get(group as usize / 64).is_some_and(|word| word >> (group % 64) & 1 == 1)
    }

    fn insert(&mut self, group: GroupIndex) {
        let word = group as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (group % 64);
    }

    /// Adds all of `other`; says whether that changed anything.
    fn absorb(&mut self, other: &GroupSet) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut changed = false;
        for (word, &more) in self.0.iter_mut().zip(&other.0) {
            changed |= *word | more != *word;
            *word |= more;
        }
        changed
    }

    fn iter(&self) -> impl Iterator<Item = GroupIndex> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let bits = std::iter::successors((word != 0).then_some(word), |&bits| {
                let rest = bits & (bits - 1);
                (rest != 0).then_some(rest)
            });
            bits.map(move |bits| index as u32 * 64 + bits.trailing_zeros())
        })
    }
}

/// A group, or an alias, which no member can join.
struct Group {
    members: SmallVec<[u32; 8]>,
    alias: bool,
    /// Gone, into another.
    merged: Option<GroupIndex>,
    has_dot: bool,
    /// Every group on which this one depends, directly or not. May still name groups that are gone, beside those that
    /// took them up.
    ancestors: GroupSet,
}

impl Group {
    fn is_alive(&self) -> bool {
        self.merged.is_none()
    }
}

struct Growth<'a> {
    trace: &'a SymbolicTrace,
    accesses: &'a Accesses,
    groups: Vec<Group>,
    group_of: Vec<GroupIndex>,
    /// For each value the groups that lately read it.
    readers: Vec<SmallVec<[GroupIndex; SIBLINGS]>>,
    not_fused: Vec<NotFused>,
}

impl<'a> Growth<'a> {
    fn new(trace: &'a SymbolicTrace, accesses: &'a Accesses) -> Self {
        Growth {
            trace,
            accesses,
            groups: Vec::new(),
            group_of: vec![NO_GROUP; trace.nodes.len()],
            readers: vec![SmallVec::new(); trace.inputs.len() + trace.nodes.len()],
            not_fused: Vec::new(),
        }
    }

    fn place_alias(&mut self, node: u32) {
        let operand = self.trace.nodes[node as usize].operands[0];
        let group = self.open(node, true);
        let producer = self.trace.producer(operand).map(|producer| self.group_of[producer]);
        self.depend(group, producer.as_slice());
    }

    fn place_member(&mut self, node: u32, fuse: bool) {
        let producers = self.producers(node);
        let mut sources: SmallVec<[GroupIndex; 4]> = producers.iter().map(|&(_, group)| group).collect();
        sources.sort_unstable();
        sources.dedup();

        let mut home = None;
        if fuse {
            let mut refusals: SmallVec<[(GroupIndex, Refusal); 4]> = SmallVec::new();
            for candidate in self.by_gain(node, &sources) {
                let joined = match home {
                    None => self.may_join(node, candidate, &sources),
                    Some(home) => self.may_merge(home, candidate),
                };
                match (joined, home) {
                    (Ok(()), None) => {
                        self.join(node, candidate);
                        self.depend(candidate, &sources);
                        home = Some(candidate);
                    }
                    (Ok(()), Some(into)) => self.merge(into, candidate),
                    (Err(refusal), _) => refusals.push((candidate, refusal)),
                }
            }
            if home.is_none()
                && let Some(sibling) = self.sibling(node, &sources)
            {
                self.join(node, sibling);
                self.depend(sibling, &sources);
                home = Some(sibling);
            }
            self.explain(node, &producers, |group| {
                let refusal = refusals.iter().find(|&&(refused, _)| refused == group);
                refusal.expect("every group of a producer was tried").1
            });
        } else {
            self.explain(node, &producers, |_| Refusal::Off);
        }
        let home = home.unwrap_or_else(|| {
            let home = self.open(node, false);
            self.depend(home, &sources);
            home
        });
        self.remember(node, home);
    }

    /// Members and aliases whose results a member reads, with their groups.
    fn producers(&self, node: u32) -> SmallVec<[(u32, GroupIndex); 4]> {
        let mut producers: SmallVec<[(u32, GroupIndex); 4]> = SmallVec::new();
        for path in self.accesses.paths(node as usize) {
            if let Some(producer) = path.value().and_then(|value| self.trace.producer(value)) {
                let producer = producer as u32;
                if !producers.iter().any(|&(known, _)| known == producer) {
                    producers.push((producer, self.group_of[producer as usize]));
                }
            }
        }
        producers
    }

    fn explain(&mut self, node: u32, producers: &[(u32, GroupIndex)], why: impl Fn(GroupIndex) -> Refusal) {
        let apart = producers.iter().filter(|&&(producer, _)| {
            let group = &self.groups[self.group_of[producer as usize] as usize];
            !group.alias && self.group_of[producer as usize] != self.group_of[node as usize]
        });
        let entries: SmallVec<[NotFused; 4]> = apart
            .map(|&(producer, group)| NotFused {
                producer: NodeId(producer),
                consumer: NodeId(node),
                refusal: why(group),
            })
            .collect();
        self.not_fused.extend(entries);
    }

    /// Groups that a member may join at all, dearest edge first.
    fn by_gain(&self, node: u32, sources: &[GroupIndex]) -> SmallVec<[GroupIndex; 4]> {
        let mut candidates: SmallVec<[(u64, GroupIndex); 4]> = sources
            .iter()
            .filter(|&&group| !self.groups[group as usize].alias)
            .map(|&group| (self.bytes_between(node, group), group))
            .collect();
        candidates.sort_unstable_by_key(|&(bytes, group)| Reverse((bytes, group)));
        candidates.into_iter().map(|(_, group)| group).collect()
    }

    /// Nominal bytes that a member reads of a group's results.
    fn bytes_between(&self, node: u32, group: GroupIndex) -> u64 {
        let values = self.accesses.paths(node as usize).iter().filter_map(|path| path.value());
        let read = values.filter(|&value| self.trace.producer(value).is_some_and(|p| self.group_of[p] == group));
        read.map(|value| cost::nominal_bytes(self.trace.ty(value))).fold(0, u64::saturating_add)
    }

    /// Whether `node`, which depends on the groups `sources`, may join `group`.
    fn may_join(&self, node: u32, group: GroupIndex, sources: &[GroupIndex]) -> Result<(), Refusal> {
        let between = |&source: &GroupIndex| source != group && self.groups[source as usize].ancestors.contains(group);
        if sources.iter().any(between) {
            return Err(Refusal::Cycle);
        }
        let home = &self.groups[group as usize];
        let mut members = home.members.clone();
        members.push(node);
        self.may_be_one(&members, self.bytes_between(node, group))
    }

    /// Whether the groups may become one.
    fn may_merge(&self, a: GroupIndex, b: GroupIndex) -> Result<(), Refusal> {
        let (first, second) = (&self.groups[a as usize], &self.groups[b as usize]);
        let between = |from: GroupIndex, to: &Group| {
            let third = |&group: &GroupIndex| self.groups[group as usize].is_alive() && group != a && group != b;
            to.ancestors.iter().filter(third).any(|group| self.groups[group as usize].ancestors.contains(from))
        };
        if between(a, second) || between(b, first) {
            return Err(Refusal::Cycle);
        }
        if first.has_dot && second.has_dot {
            return Err(Refusal::TwoDots);
        }
        let members = union(&first.members, &second.members);
        let bytes = first.members.iter().map(|&node| self.bytes_between(node, b)).fold(0, u64::saturating_add);
        self.may_be_one(&members, bytes)
    }

    fn may_be_one(&self, members: &[u32], bytes: u64) -> Result<(), Refusal> {
        let escapes = |node: u32| {
            let inside = |user: &u32| members.binary_search(user).is_ok();
            self.accesses.is_pinned(node as usize) || !self.accesses.users(node as usize).iter().all(inside)
        };
        let space = legality::analyse(self.trace, self.accesses, members, escapes)?;
        if cost::serializes(self.trace, members) {
            return Err(Refusal::Unprofitable);
        }
        let repeated = cost::repeated_work(self.trace, members, &space);
        if (Gain { bytes, launches: 1, repeated }).pays() { Ok(()) } else { Err(Refusal::Unprofitable) }
    }

    /// A group without dot, of the same shape, that reads a tensor which `node` reads too.
    fn sibling(&self, node: u32, sources: &[GroupIndex]) -> Option<GroupIndex> {
        let symbolic = &self.trace.nodes[node as usize];
        if symbolic.op.class() == OpClass::Contract {
            return None;
        }
        let values = self.accesses.paths(node as usize).iter().filter_map(|path| path.value());
        let tensors = values.filter(|&value| !self.trace.ty(value).shape.is_empty());
        let mut tried: SmallVec<[GroupIndex; 8]> = SmallVec::new();
        for value in tensors {
            for &reader in self.readers[value.index()].iter().rev() {
                let group = self.current(reader);
                if tried.contains(&group) || self.groups[group as usize].has_dot {
                    continue;
                }
                tried.push(group);
                let last = *self.groups[group as usize].members.last().expect("a group has members");
                let shape = |node: u32| self.space_shape(node);
                let shared = cost::nominal_bytes(self.trace.ty(value));
                if shape(last) == shape(node) && self.may_join_sibling(node, group, sources, shared).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }

    /// The group that a group has become part of.
    fn current(&self, mut group: GroupIndex) -> GroupIndex {
        while let Some(into) = self.groups[group as usize].merged {
            group = into;
        }
        group
    }

    fn may_join_sibling(
        &self,
        node: u32,
        group: GroupIndex,
        sources: &[GroupIndex],
        shared: u64,
    ) -> Result<(), Refusal> {
        if sources.iter().any(|&source| source == group || self.groups[source as usize].ancestors.contains(group)) {
            return Err(Refusal::Cycle);
        }
        let mut members = self.groups[group as usize].members.clone();
        members.push(node);
        self.may_be_one(&members, shared)
    }

    /// Extents of what a member visits: its operand if it reduces, else its result.
    fn space_shape(&self, node: u32) -> &[Extent] {
        let symbolic = &self.trace.nodes[node as usize];
        if symbolic.op.class() == OpClass::Reduce {
            &self.trace.ty(symbolic.operands[0]).shape
        } else {
            &symbolic.ty.shape
        }
    }

    fn open(&mut self, node: u32, alias: bool) -> GroupIndex {
        let group = self.groups.len() as GroupIndex;
        self.groups.push(Group {
            members: SmallVec::from_slice(&[node]),
            alias,
            merged: None,
            has_dot: self.trace.nodes[node as usize].op.class() == OpClass::Contract,
            ancestors: GroupSet::default(),
        });
        self.group_of[node as usize] = group;
        group
    }

    fn join(&mut self, node: u32, group: GroupIndex) {
        // Members are placed in program order, so this keeps them ascending.
        self.groups[group as usize].members.push(node);
        self.group_of[node as usize] = group;
    }

    fn merge(&mut self, into: GroupIndex, from: GroupIndex) {
        let taken = std::mem::take(&mut self.groups[from as usize].members);
        for &node in &taken {
            self.group_of[node as usize] = into;
        }
        let ancestors = std::mem::take(&mut self.groups[from as usize].ancestors);
        self.groups[from as usize].merged = Some(into);
        let has_dot = self.groups[from as usize].has_dot;
        let home = &mut self.groups[into as usize];
        home.members = union(&home.members, &taken);
        home.has_dot |= has_dot;
        home.ancestors.absorb(&ancestors);
        let mut added = home.ancestors.clone();
        added.insert(into);
        // Whoever depended on either depends on the whole.
        for group in &mut self.groups {
            if group.ancestors.contains(from) || group.ancestors.contains(into) {
                group.ancestors.absorb(&added);
            }
        }
        remove_self(&mut self.groups[into as usize].ancestors, into, from);
    }

    /// Records that `group` depends on `sources`.
    fn depend(&mut self, group: GroupIndex, sources: &[GroupIndex]) {
        let mut added = GroupSet::default();
        for &source in sources {
            // A source may have been merged into the group meanwhile.
            if source != group && self.groups[source as usize].is_alive() {
                added.insert(source);
                added.absorb(&self.groups[source as usize].ancestors);
            }
        }
        if !self.groups[group as usize].ancestors.absorb(&added) {
            return;
        }
        for other in &mut self.groups {
            if other.ancestors.contains(group) {
                other.ancestors.absorb(&added);
            }
        }
    }

    fn remember(&mut self, node: u32, group: GroupIndex) {
        for path in self.accesses.paths(node as usize) {
            let Some(value) = path.value() else { continue };
            if self.trace.producer(value).is_some_and(|producer| self.group_of[producer] == group) {
                continue;
            }
            let readers = &mut self.readers[value.index()];
            if !readers.contains(&group) {
                if readers.len() == SIBLINGS {
                    readers.remove(0);
                }
                readers.push(group);
            }
        }
    }

    /// Orders the groups: each after those it depends on, else by their first node.
    fn finish(self) -> Partition {
        let mut waiting: Vec<SmallVec<[GroupIndex; 4]>> = vec![SmallVec::new(); self.groups.len()];
        let mut missing = vec![0usize; self.groups.len()];
        for (index, group) in self.groups.iter().enumerate().filter(|(_, group)| group.is_alive()) {
            let mut direct: SmallVec<[GroupIndex; 8]> = SmallVec::new();
            for &node in &group.members {
                let alias = group.alias.then(|| self.trace.nodes[node as usize].operands[0]);
                let read = self.accesses.paths(node as usize).iter().filter_map(|path| path.value());
                for producer in alias.into_iter().chain(read).filter_map(|value: ValueId| self.trace.producer(value)) {
                    let source = self.group_of[producer];
                    if source as usize != index && !direct.contains(&source) {
                        direct.push(source);
                    }
                }
            }
            missing[index] = direct.len();
            for source in direct {
                waiting[source as usize].push(index as GroupIndex);
            }
        }
        let first = |group: usize| Reverse((self.groups[group].members[0], group));
        let live = (0..self.groups.len()).filter(|&group| self.groups[group].is_alive());
        let mut ready: BinaryHeap<_> = live.filter(|&group| missing[group] == 0).map(first).collect();
        let mut parts = Vec::new();
        while let Some(Reverse((_, group))) = ready.pop() {
            let Group { members, alias, .. } = &self.groups[group];
            parts.push(if *alias { Part::Alias(members[0]) } else { Part::Group(members.to_vec()) });
            for &next in &waiting[group] {
                missing[next as usize] -= 1;
                if missing[next as usize] == 0 {
                    ready.push(first(next as usize));
                }
            }
        }
        let live = self.groups.iter().filter(|group| group.is_alive()).count();
        assert_eq!(parts.len(), live, "the graph of groups has no cycle");
        Partition { parts, not_fused: self.not_fused }
    }
}

fn remove_self(set: &mut GroupSet, a: GroupIndex, b: GroupIndex) {
    for group in [a, b] {
        if let Some(word) = set.0.get_mut(group as usize / 64) {
            *word &= !(1 << (group % 64));
        }
    }
}

/// Two ascending lists merged.
fn union(a: &[u32], b: &[u32]) -> SmallVec<[u32; 8]> {
    let mut all: SmallVec<[u32; 8]> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all
}
