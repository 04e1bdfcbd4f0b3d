import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Beginnings of paths under `test`: what takes longest, most of it waiting or on one core. */
const longest = [
  "e2e/",
  "simulation/",
  "worker/",
  "agent/stories/bad-days",
  "pki/x509/csr-mutation",
  "cli/verbs/cluster/delivery-report",
  "agent/identity/certificate-client",
  "node/http/certificate-service",
  "cli/verbs/run/",
  "cli/verbs/log/log",
  "cli/session/dry-run",
  "transport/http/fetch-handler",
  "cli/verbs/authority/backup",
  "cli/session/deployment",
  "node/limits/",
  "node/serve/",
  "ca/rotation/root-rampart",
  "transport/rpc/tenant-isolation",
];

/** Files that wait begin first, so that the others use the cores meanwhile and the run does not wait at its end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => place(a) - place(b));
  }
}

function place({ moduleId }: TestSpecification): number {
  const at = longest.findIndex((path) => moduleId.startsWith(`${import.meta.dirname}/${path}`));
  return at < 0 ? longest.length : at;
}
