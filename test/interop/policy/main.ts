import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { reportOutcomes } from "../agent/outcome-table.ts";
import { playMesh } from "./mesh-story.ts";
import { playWorker } from "./worker-story.ts";

const folder = await lastingFolder();
reportOutcomes(await Promise.all([playMesh(folder), playWorker()]));
process.exit();
