package metrics

// The roles whose gauges are read, as they call themselves on TELEMETRY.
const (
	RoleProducer = "produce"
	RoleGrouper  = "grouper"
	RoleBridge   = "bridge"
	RoleEngine   = "engine"
	roleTrainer  = "trainer"
)

var producerFamilies = []Family{
	{Name: "headrace_producer_slots", Kind: Gauge, From: RoleProducer, Values: one("slots"), Help: "Episodes that the producer plays at once."},
	{Name: "headrace_episodes_in_flight", Kind: Gauge, From: RoleProducer, Values: one("episodes_live"), Help: "Episodes being played now."},
	{Name: "headrace_producer_episodes_total", Kind: Counter, From: RoleProducer, Label: "status",
		Values: plain("episodes_", "succeeded", "truncated", "overlong", "failed", "aborted"), Help: "Episodes that the producer ended."},
	{Name: "headrace_episode_failures_total", Kind: Counter, From: RoleProducer, Label: "cause",
		Values: plain("failed_", "engine", "environment", "other"), Help: "Failed episodes by what failed them."},
	{Name: "headrace_turns_total", Kind: Counter, From: RoleProducer, Values: one("steps"), Help: "Turns completed: a model call and the environment's answer."},
	{Name: "headrace_generate_calls_total", Kind: Counter, From: RoleProducer, Values: one("calls"), Help: "Model calls answered."},
	{Name: "headrace_generate_seconds_total", Kind: Counter, From: RoleProducer, Values: one("engine_wait_seconds"), Help: "Time that episodes waited for an engine, summed over episodes."},
	{Name: "headrace_environment_seconds_total", Kind: Counter, From: RoleProducer, Values: one("env_wait_seconds"), Help: "Time that episodes waited for their environment, summed over episodes."},
	{Name: "headrace_tokens_total", Kind: Counter, From: RoleProducer, Label: "kind",
		Values: plain("tokens_", "prompt", "cached", "sampled"), Help: "Tokens of model calls; cached ones are part of the prompt."},
	{Name: "headrace_forks_total", Kind: Counter, From: RoleProducer, Values: one("forks"), Help: "Histories that an agent rewrote, each a new segment of its trajectory."},
	{Name: "headrace_environment_calls_hung", Kind: Gauge, From: RoleProducer, Values: one("leaked"), Help: "Calls of environments that hang past every limit."},
	{Name: "headrace_leases_held", Kind: Gauge, From: RoleProducer, Values: one("leases_held"), Help: "Tasks that the producer holds."},
	{Name: "headrace_leases_total", Kind: Counter, From: RoleProducer, Label: "outcome",
		Values: []Value{{"taken", "leases_taken"}, {"returned", "leases_returned"}}, Help: "Tasks leased, and of them handed back unplayed."},
	{Name: "headrace_trajectories_published_total", Kind: Counter, From: RoleProducer, Values: one("published"), Help: "Trajectories that the server has stored."},
	{Name: "headrace_trajectories_unpublished_total", Kind: Counter, From: RoleProducer, Values: one("unpublished"), Help: "Trajectories given up before the server had stored them."},
	{Name: "headrace_bus_publisher_waiting_trajectories", Kind: Gauge, From: RoleProducer, Values: one("publisher_waiting"), Help: "Finished trajectories that wait to be published."},
	{Name: "headrace_bus_publisher_pending_bytes", Kind: Gauge, From: RoleProducer, Values: one("publisher_bytes"), Help: "Bytes sent that the server has not acknowledged."},
	{Name: "headrace_bus_publisher_bundles_total", Kind: Counter, From: RoleProducer, Values: one("publisher_bundles"), Help: "Messages that trajectories were published in."},
	{Name: "headrace_bus_publisher_duplicates_total", Kind: Counter, From: RoleProducer, Values: one("publisher_duplicates"), Help: "Messages that the server had already."},
	{Name: "headrace_bus_publisher_retries_total", Kind: Counter, From: RoleProducer, Values: one("publisher_retries"), Help: "Messages sent again."},
	{Name: "headrace_bus_publisher_blocked", Kind: Gauge, From: RoleProducer, Values: one("publisher_blocked"), Help: "Publishers that a full stream holds back."},
	{Name: "headrace_engines_registered", Kind: Gauge, From: RoleProducer, Merge: Highest, Values: one("engines"), Help: "Engines in the registry, as producers see it."},
	{Name: "headrace_engines_ready", Kind: Gauge, From: RoleProducer, Merge: Highest, Values: one("engines_live"), Help: "Engines that answer, as producers see them."},
	{Name: "headrace_generate_calls_in_flight", Kind: Gauge, From: RoleProducer, Values: one("engine_calls_in_flight"), Help: "Model calls at engines now."},
	{Name: "headrace_generate_calls_waiting", Kind: Gauge, From: RoleProducer, Values: one("engine_calls_waiting"), Help: "Model calls held back by the producer's limit."},
	{Name: "headrace_generate_calls_limit", Kind: Gauge, From: RoleProducer, Values: one("engine_calls_limit"), Help: "Model calls that may be at engines at once."},
	{Name: "headrace_generate_retries_total", Kind: Counter, From: RoleProducer, Values: one("engine_retries"), Help: "Model calls made again after an error."},
	{Name: "headrace_generate_overloads_total", Kind: Counter, From: RoleProducer, Values: one("engine_overloads"), Help: "Model calls that an engine refused as too many."},
	{Name: "headrace_generate_aborts_total", Kind: Counter, From: RoleProducer, Values: one("engine_aborts"), Help: "Model calls that an engine cut short."},
}

// What the grouper says of trajectories is of the run, whichever instance says it.
var grouperFamilies = []Family{
	{Name: "headrace_groups_open", Kind: Gauge, From: RoleGrouper, Merge: Highest, Values: one("open_groups"), Help: "Groups that wait for trajectories."},
	{Name: "headrace_groups_ready", Kind: Gauge, From: RoleGrouper, Merge: Highest, Values: one("kept_groups"), Help: "Complete groups that wait for their batch."},
	{Name: "headrace_group_oldest_seconds", Kind: Gauge, From: RoleGrouper, Merge: Highest, Values: one("oldest_group_seconds"), Help: "Age of the oldest open group."},
	{Name: "headrace_trajectories_held", Kind: Gauge, From: RoleGrouper, Merge: Highest, Values: one("held_trajectories"), Help: "Trajectories of groups that are open or wait for their batch."},
	{Name: "headrace_slots_in_flight", Kind: Gauge, From: RoleGrouper, Merge: Highest, Values: one("slots_in_flight"), Help: "Slots of groups whose trajectory has not come."},
	{Name: "headrace_evaluations_open", Kind: Gauge, From: RoleGrouper, Merge: Highest, Values: one("evaluations_open"), Help: "Evaluation rounds being played."},
	{Name: "headrace_trajectories_produced_total", Kind: Counter, From: RoleGrouper, Merge: Highest, Values: one("produced"), Help: "Training trajectories that came: those trained, dropped and held."},
	{Name: "headrace_trajectories_trained_total", Kind: Counter, From: RoleGrouper, Merge: Highest, Values: one("trained"), Help: "Training trajectories that are in a batch."},
	{Name: "headrace_trajectories_dropped_total", Kind: Counter, From: RoleGrouper, Merge: Highest, Label: "reason", Prefix: "dropped_",
		Values: plain("dropped_", "failed", "aborted", "rejected", "duplicate", "late", "unknown", "surplus", "overlong", "forged", "zero_variance", "expired", "too_few", "stale", "cancelled"),
		Help:   "Training trajectories that are in no batch, by why; one that is rejected later leaves its first reason, so watch the sum."},
	{Name: "headrace_trajectories_evaluation_unused_total", Kind: Counter, From: RoleGrouper, Merge: Highest, Values: one("evaluation_unused"), Help: "Evaluation trajectories that came late or twice."},
	{Name: "headrace_grouper_malformed_headers_total", Kind: Counter, From: RoleGrouper, Values: one("malformed_headers"), Help: "Index entries that the grouper could not read."},
	{Name: "headrace_grouper_rollouts_missing_total", Kind: Counter, From: RoleGrouper, Values: one("rollouts_missing"), Help: "Sequences of ROLLOUTS that were not there."},
	{Name: "headrace_grouper_ledger_entries_total", Kind: Counter, From: RoleGrouper, Values: one("ledger_entries"), Help: "Ledger entries that the grouper wrote."},
	{Name: "headrace_grouper_inspected_sequence", Kind: Gauge, From: RoleGrouper, Merge: Highest, Values: one("inspected"), Help: "Last sequence of ROLLOUTS that the grouper knows to be inspected."},
}

var bridgeFamilies = []Family{
	{Name: "headrace_bridge_trainers", Kind: Gauge, From: RoleBridge, Values: one("trainers"), Help: "Trainers connected."},
	{Name: "headrace_bridge_batches_ready", Kind: Gauge, From: RoleBridge, Values: one("batches_ready"), Help: "Batches built and waiting for the trainer."},
	{Name: "headrace_bridge_slots_held", Kind: Gauge, From: RoleBridge, Values: one("slots_held"), Help: "Slots of the ring that the trainer holds."},
	{Name: "headrace_bridge_cache_bytes", Kind: Gauge, From: RoleBridge, Values: one("cache_bytes"), Help: "Bytes of fetched bundles in the cache."},
	{Name: "headrace_bridge_cache_bundles", Kind: Gauge, From: RoleBridge, Values: one("cache_bundles"), Help: "Fetched bundles in the cache."},
	{Name: "headrace_bridge_inspected_sequence", Kind: Gauge, From: RoleBridge, Merge: Highest, Values: one("inspected_sequence"), Help: "Last sequence of ROLLOUTS whose bodies were checked."},
	{Name: "headrace_bridge_step", Kind: Gauge, From: RoleBridge, Merge: Highest, Label: "at",
		Values: []Value{{"ledger", "ledger_step"}, {"delivered", "delivered_step"}, {"committed", "committed_step"}, {"checkpointed", "checkpoint_step"}}, Help: "Last step that is in the ledger, with the trainer, trained, saved."},
	{Name: "headrace_bridge_published_version", Kind: Gauge, From: RoleBridge, Merge: Highest, Values: one("published_version"), Help: "Newest policy version that the trainer announced through the bridge."},
	{Name: "headrace_bridge_trainer_wait_seconds_total", Kind: Counter, From: RoleBridge, Values: one("trainer_wait_seconds_total"), Help: "Time that the trainer waited for a batch, as the bridge sees it."},
	{Name: "headrace_bridge_build_seconds_total", Kind: Counter, From: RoleBridge, Values: one("build_seconds_total"), Help: "Time spent building batches."},
	{Name: "headrace_bridge_batches_total", Kind: Counter, From: RoleBridge, Values: one("batches_total"), Help: "Batches built."},
	{Name: "headrace_bridge_rows_total", Kind: Counter, From: RoleBridge, Values: one("rows_total"), Help: "Rows of the batches built."},
	{Name: "headrace_bridge_rows_overflowed_total", Kind: Counter, From: RoleBridge, Values: one("rows_overflowed_total"), Help: "Segments that found no room in their batch."},
	{Name: "headrace_bridge_tokens_total", Kind: Counter, From: RoleBridge, Values: one("tokens_total"), Help: "Tokens of the batches built."},
	{Name: "headrace_bridge_batch_bytes_total", Kind: Counter, From: RoleBridge, Values: one("batch_bytes_total"), Help: "Bytes of the batches built."},
	{Name: "headrace_bridge_fetched_bytes_total", Kind: Counter, From: RoleBridge, Values: one("fetched_bytes_total"), Help: "Bytes of rollouts fetched for batches, beside what was inspected."},
	{Name: "headrace_bridge_used_bytes_total", Kind: Counter, From: RoleBridge, Values: one("used_bytes_total"), Help: "Bytes of rollouts that are in batches."},
	{Name: "headrace_bridge_inspected_trajectories_total", Kind: Counter, From: RoleBridge, Values: one("inspected_trajectories_total"), Help: "Trajectories whose bodies were checked."},
	{Name: "headrace_bridge_inspected_bytes_total", Kind: Counter, From: RoleBridge, Values: one("inspected_bytes_total"), Help: "Bytes of bodies that were checked."},
	{Name: "headrace_bridge_rejected_total", Kind: Counter, From: RoleBridge, Label: "reason",
		Values: []Value{{"invalid", "rejected_trajectories_total"}, {"forged", "forged_trajectories_total"}, {"copied", "copied_trajectories_total"}, {"unreadable", "unreadable_total"}}, Help: "What the inspector turned away: trajectories, and messages that nobody can read."},
	{Name: "headrace_bridge_letters_total", Kind: Counter, From: RoleBridge, Label: "kept",
		Values: []Value{{"without_body", "letters_without_body_total"}, {"swept", "letters_swept_total"}}, Help: "Dead letters that lost their body: for want of room when written, or swept later."},
	{Name: "headrace_rollouts_bytes", Kind: Gauge, From: RoleBridge, Merge: Highest, Values: one("rollouts_bytes"), Help: "Bytes in ROLLOUTS, as the bridge's janitor sees it."},
	{Name: "headrace_rollouts_limit_bytes", Kind: Gauge, From: RoleBridge, Merge: Highest, Values: one("rollouts_limit_bytes"), Help: "Bytes that ROLLOUTS may hold."},
}

var engineFamilies = []Family{
	{Name: "headrace_engine_requests_running", Kind: Gauge, From: RoleEngine, Values: one("running"), Help: "Requests that the engine computes now."},
	{Name: "headrace_engine_requests_waiting", Kind: Gauge, From: RoleEngine, Values: one("waiting"), Help: "Requests that wait in the engine's queue."},
	{Name: "headrace_engine_token_usage_ratio", Kind: Gauge, From: RoleEngine, Merge: Highest, Values: one("token_usage"), Help: "Share of the engine's cache that is in use, 0 to 1; the fullest engine's."},
	{Name: "headrace_engines_paused", Kind: Gauge, From: RoleEngine, Values: one("paused"), Help: "Engines that are paused to load weights."},
	{Name: "headrace_engine_policy_version", Kind: Gauge, From: RoleEngine, Merge: Lowest, Values: one("version"), Help: "Policy version that the engine serves; the oldest one's."},
	{Name: "headrace_engine_tokens_total", Kind: Counter, From: RoleEngine, Label: "kind", Values: plain("tokens_", "prompt", "cached", "sampled"), Help: "Tokens that the engine read and sampled; cached ones are part of the prompt."},
	{Name: "headrace_engine_requests_total", Kind: Counter, From: RoleEngine, Values: one("requests"), Help: "Requests that the engine ended."},
	{Name: "headrace_engine_requests_aborted_total", Kind: Counter, From: RoleEngine, Values: one("aborted"), Help: "Requests that the engine cut short."},
	{Name: "headrace_engine_weight_syncs_total", Kind: Counter, From: RoleEngine, Values: one("syncs"), Help: "Versions that the sidecar loaded into the engine."},
	{Name: "headrace_engine_weight_sync_seconds_total", Kind: Counter, From: RoleEngine, Values: one("sync_seconds"), Help: "Time that loading versions took."},
	{Name: "headrace_engine_device_seconds_total", Kind: Counter, From: RoleEngine, Values: one("device_seconds"), Help: "Time that the engine's device computed; of the reference engine."},
	{Name: "headrace_engine_device_calls_total", Kind: Counter, From: RoleEngine, Values: one("device_calls"), Help: "Calls of the engine's device; of the reference engine."},
	{Name: "headrace_engine_device_rows_total", Kind: Counter, From: RoleEngine, Values: one("device_rows"), Help: "Rows of those calls that held a request."},
	{Name: "headrace_engine_device_row_capacity_total", Kind: Counter, From: RoleEngine, Values: one("device_row_capacity"), Help: "Rows of those calls, full or empty."},
}
