import { Phase } from "../../gen/rampart/status/v1/status_pb.ts";

/** The words for phases, as in `rampart authority list`. */
export const phaseNames: Readonly<Record<number, string>> = {
  [Phase.UNSPECIFIED]: "unknown",
  [Phase.FUTURE]: "future",
  [Phase.PUBLISHED]: "published",
  [Phase.SIGNING]: "signing",
  [Phase.VERIFYING]: "verifying",
  [Phase.RETIRED]: "retired",
};
