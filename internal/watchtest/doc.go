// Package watchtest proves that looking at a run never changes it: the same run is
// played twice on a real server, alone and with every kind of reader at full speed
// beside it, and both logs must say the same.
package watchtest
