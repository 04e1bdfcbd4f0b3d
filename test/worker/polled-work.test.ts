import { pollForWork } from "../../src/foundation/shared-work.ts";
import { describeSharedWork } from "../contract/bounds/shared-work.ts";
import { createTurnClock } from "../testkit/time/turn-clock.ts";

describeSharedWork(pollForWork(createTurnClock()));
