import { sharePromises } from "../../src/host/promise-sharing.ts";
import { describeSharedWork } from "../contract/shared-work.ts";

describeSharedWork(sharePromises);
