import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { reportOutcomes } from "../agent/outcome-table.ts";
import { playMesh } from "./mesh-story.ts";
import { playWorker } from "./worker-story.ts";

const folder = await lastingFolder();
const [mesh, worker] = await Promise.all([playMesh(folder), playWorker()]);
reportOutcomes([...mesh, worker]);
process.exit();
