import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Row } from "../measurement/report.ts";
import type { Workload } from "../workload.ts";

const calls = 3000;

/**
 * Certificates per second as the load tool `ghz` counts them; no row where it is not installed (`go install github.com/bojand/ghz/cmd/ghz@v0.121.0`).
 */
export async function ghzRows(
  name: string,
  port: number,
  { token, csrPem }: Workload,
): Promise<Row[]> {
  const metadata = { authorization: `Bearer ${token}`, clusterid: "Kubernetes" };
  const options = [
    ["--skipTLS"],
    ["--format", "json"],
    ["--total", String(calls)],
    ["--concurrency", "8"],
    ["--call", "istio.v1.auth.IstioCertificateService.CreateCertificate"],
    ["--metadata", JSON.stringify(metadata)],
    ["--data", JSON.stringify({ csr: csrPem, validity_duration: 86_400 })],
  ];
  try {
    const { stdout } = await promisify(execFile)("ghz", [...options.flat(), `127.0.0.1:${port}`]);
    return rowsOf(name, JSON.parse(stdout) as Report);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

interface Report {
  readonly rps: number;
  readonly statusCodeDistribution: Readonly<Record<string, number>>;
}

function rowsOf(name: string, { rps, statusCodeDistribution }: Report): Row[] {
  const { OK } = statusCodeDistribution;
  if (OK !== calls) throw new Error(`ghz: ${JSON.stringify(statusCodeDistribution)}`);
  return [{ name: `certificates per second by ghz, ${name}`, value: rps, unit: "1/s" }];
}
