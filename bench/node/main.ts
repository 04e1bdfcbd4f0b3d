import { startKeyServer } from "../key-server.ts";
import { printRows } from "../report.ts";
import { createWorkload } from "../workload.ts";
import { nodeRows } from "./rows.ts";

const workload = await createWorkload();
const keyServer = await startKeyServer(workload.keySet);
try {
  process.exitCode = printRows(await nodeRows(workload, keyServer.url)) ? 0 : 1;
} finally {
  keyServer.close();
}
