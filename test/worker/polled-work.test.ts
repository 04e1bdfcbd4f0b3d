import { pollForWork } from "../../src/foundation/polled-work.ts";
import { describeSharedWork } from "../contract/shared-work.ts";

describeSharedWork(pollForWork(() => new Date()));
