import { Phase } from "../../gen/rampart/status/v1/status_pb.ts";
import type { Phase as PhaseName } from "../../pki/authority/schedule.ts";

/** The words for phases, as everywhere. */
export const phaseNames: Readonly<Record<Phase, PhaseName | "unknown">> = {
  [Phase.UNSPECIFIED]: "unknown",
  [Phase.FUTURE]: "future",
  [Phase.PUBLISHED]: "published",
  [Phase.SIGNING]: "signing",
  [Phase.VERIFYING]: "verifying",
  [Phase.RETIRED]: "retired",
};
