package perfetto

// The numbers of fields, from google/perfetto's protos/perfetto/trace:
// perfetto_trace.proto as of v59. The Python tests read what the writer wrote
// with the classes that Perfetto's own package has of that file.
const (
	tracePacket = 1 // Trace.packet

	// TracePacket (trace_packet.proto).
	packetClockSnapshot = 6
	packetTimestamp     = 8
	packetSequence      = 10 // trusted_packet_sequence_id
	packetTrackEvent    = 11
	packetInterned      = 12
	packetFlags         = 13 // sequence_flags
	packetDescriptor    = 60 // track_descriptor
	packetFirst         = 87 // first_packet_on_sequence

	flagCleared = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	flagNeeds   = 2 // SEQ_NEEDS_INCREMENTAL_STATE

	// ClockSnapshot and its Clock (clock_snapshot.proto, builtin_clock.proto).
	snapshotClock = 1
	clockID       = 1
	clockTime     = 2
	clockRealtime = 1
	clockBoottime = 6 // what timestamps are in unless a packet says otherwise

	// TrackDescriptor (track_event/track_descriptor.proto).
	trackUUID        = 1
	trackName        = 2
	trackProcess     = 3
	trackThread      = 4
	trackParent      = 5
	trackCounter     = 8
	trackChildren    = 11 // child_ordering
	trackRank        = 12 // sibling_order_rank
	trackDescription = 14
	trackMerge       = 15 // sibling_merge_behavior

	childrenExplicit = 3 // ChildTracksOrdering.EXPLICIT
	mergeNone        = 2 // SIBLING_MERGE_BEHAVIOR_NONE

	// ProcessDescriptor, ThreadDescriptor, CounterDescriptor.
	processPID  = 1
	processName = 6
	threadPID   = 1
	threadTID   = 2
	threadName  = 5
	counterUnit = 6 // unit_name

	// TrackEvent (track_event/track_event.proto).
	eventCategoryIDs = 3
	eventAnnotations = 4
	eventType        = 9
	eventNameID      = 10
	eventTrack       = 11
	eventDouble      = 44 // double_counter_value
	eventFlows       = 47 // flow_ids
	eventEnds        = 48 // terminating_flow_ids

	// DebugAnnotation (track_event/debug_annotation.proto).
	annotationNameID = 1
	annotationBool   = 2
	annotationInt    = 4
	annotationDouble = 5
	annotationText   = 6

	// InternedData (interned_data/interned_data.proto) and its entries.
	internedCategories  = 1
	internedNames       = 2
	internedAnnotations = 3
	entryID             = 1
	entryText           = 2
)
