import { sharePromises } from "../../src/host/promise-sharing.ts";
import { describeSharedWork } from "../contract/bounds/shared-work.ts";

describeSharedWork(sharePromises);
