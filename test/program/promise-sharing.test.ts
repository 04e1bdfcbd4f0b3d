import { sharePromises } from "../../src/program/promise-sharing.ts";
import { describeSharedWork } from "../contract/bounds/shared-work.ts";

describeSharedWork(sharePromises);
