import { create } from "@bufbuild/protobuf";
import { timestampFromDate, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type Issuance_Calls as Calls,
  Issuance_CallsSchema as CallsSchema,
  type Issuance,
  IssuanceSchema,
  type LogEntry,
} from "../gen/rampart/status/v1/status_pb.ts";

const hourMilliseconds = 3_600_000;
const dayMilliseconds = 24 * hourMilliseconds;

/** The newest entries of a log, and whether the log has older ones. */
export interface NewestEntries {
  readonly entries: readonly LogEntry[];
  readonly isAll: boolean;
}

const refusedCallsOfWorkers =
  "Workers Logs has a line for each, and a dataset of Analytics Engine that is bound as CALL_COUNTS counts them.";

/** Counts what a log says of the last day, where no process counts calls. */
export function issuanceInLog({ entries, isAll }: NewestEntries, now: Date): Issuance {
  const dayAgo = now.getTime() - dayMilliseconds;
  const oldest = entries.map(timeOf).reduce((a, b) => Math.min(a, b), now.getTime());
  const recent = entries.filter((entry) => timeOf(entry) > dayAgo && entry.proof !== "authority");
  const byCluster = Map.groupBy(recent, ({ cluster }) => cluster);
  const since = isAll || oldest <= dayAgo ? dayAgo : oldest;
  return create(IssuanceSchema, {
    since: timestampFromDate(new Date(since)),
    issuedOnly: true,
    scope: `Counted from the newest entries of the issuance log, which has no refused or failed call. ${refusedCallsOfWorkers}`,
    clusters: [...byCluster]
      .map(([cluster, logged]) => ({
        cluster,
        lastHour: calls(logged.filter((entry) => timeOf(entry) > now.getTime() - hourMilliseconds)),
        lastDay: calls(logged),
      }))
      .toSorted((a, b) => (a.cluster < b.cluster ? -1 : 1)),
    hours: Array.from({ length: 24 }, (_, hour) => {
      const from = dayAgo + hour * hourMilliseconds;
      return calls(
        recent.filter((each) => timeOf(each) > from && timeOf(each) <= from + hourMilliseconds),
      );
    }),
  });
}

const timeOf = ({ at }: LogEntry): number => (at ? timestampMs(at) : 0);

const calls = ({ length }: readonly LogEntry[]): Calls => create(CallsSchema, { issued: length });
