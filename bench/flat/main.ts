import { printRows } from "../measurement/report.ts";
import { flatRows } from "./rows.ts";

process.exitCode = printRows(await flatRows()) ? 0 : 1;
