import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { reportOutcomes } from "../agent/outcome-table.ts";
import { playMesh } from "./mesh-story.ts";

reportOutcomes(await playMesh(await lastingFolder()));
process.exit();
