import { pollForWork } from "../../../src/foundation/work/polled-work.ts";
import { describeSharedWork } from "../../contract/shared-work.ts";

describeSharedWork(pollForWork(() => new Date()));
