import { type FencedBlock, fencedBlocks } from "./page-blocks.ts";
import { read } from "./page-files.ts";

export interface Block extends FencedBlock {
  readonly page: string;
}

/** What a block of shell may need that a test has not, by its mark. */
export const needs = {
  "is-the-gate": "nothing: the gate itself types it",
  "needs-account": "an account at Cloudflare or AWS",
  "needs-cloud-tools": "the command lines of Google Cloud and Azure",
  "needs-deployment": "a CA that is deployed where the example says",
  "needs-engine": "an engine for images",
  "needs-kubelet": "a Kubernetes cluster whose pods run",
  "needs-root": "root on a machine with systemd",
  "takes-hours": "more time than a test has",
} as const;

export type Need = keyof typeof needs;

/** The mark of a block whose last program runs until Ctrl-C. */
export const staysOpen = "stays-open";

/** The mark of a block that only asks, and whose answer comes with time. */
export const asksAgain = "asks-again";

/** The mark of a block that the suite `kubernetes` types, on a page of another suite. */
export const inCluster = "in-cluster";

/** The pages with such blocks, in the order in which the suite types them. */
export const clusterPages: readonly string[] = [
  "docs/tutorials/migrate-from-istiod.md",
  "docs/tutorials/two-roots.md",
  "docs/tutorials/serve-on-systemd.md",
  "docs/tutorials/worker.md",
  "docs/how-to/point-istio-at-rampart.md",
  "docs/how-to/distribute.md",
  "docs/how-to/install.md",
  "docs/how-to/own-root.md",
  "docs/how-to/troubleshoot.md",
];

/** The suite that types the unmarked blocks of a page: a folder of `test/interop`. */
export const suites: Readonly<Record<string, string>> = {
  "README.md": "pages",
  "CONTRIBUTING.md": "pages",
  "docs/tutorials/first-certificate.md": "pages",
  "docs/tutorials/worker.md": "pages",
  "docs/tutorials/agent-with-envoy.md": "pages",
  "docs/tutorials/migrate-from-istiod.md": "pages",
  "docs/tutorials/two-roots.md": "pages",
  "docs/tutorials/serve-on-systemd.md": "pages",
  "docs/explanation/data-planes.md": "pages",
  "docs/how-to/back-up-and-restore.md": "pages",
  "docs/how-to/console.md": "pages",
  "docs/how-to/deny.md": "pages",
  "docs/how-to/install.md": "pages",
  "docs/how-to/issuance-log.md": "pages",
  "docs/how-to/jwt-svids.md": "pages",
  "docs/how-to/operate.md": "pages",
  "docs/how-to/policy.md": "pages",
  "docs/how-to/replace-the-kek.md": "pages",
  "docs/how-to/revocation.md": "pages",
  "docs/how-to/rotate.md": "pages",
  "docs/how-to/s3.md": "pages",
  "docs/how-to/troubleshoot.md": "pages",
  "docs/how-to/upgrade.md": "pages",
  "docs/reference/agent.md": "pages",
  "docs/reference/endpoints.md": "pages",
  "docs/how-to/incident.md": "operator",
  "docs/how-to/own-root.md": "operator",
  "docs/reference/serve.md": "pages",
  "docs/how-to/signers.md": "kubernetes",
  "docs/tutorials/serve-on-kubernetes.md": "kubernetes",
  "docs/tutorials/token-for-aws.md": "jwt",
  "docs/tutorials/lambda.md": "lambda",
  "docs/tutorials/deno-and-bun.md": "runtimes",
  "docs/reference/releases.md": "package",
};

export const blocksOf = (page: string): Block[] =>
  fencedBlocks(read(page)).map((block) => ({ page, ...block }));

/** Whether a block shows what the typed block before it prints; `text example` shows what it might. */
export const isCompared = ({ language, mark }: Block): boolean =>
  language === "text" && mark !== "example";

/** Whether a suite has to type this block. */
export const isTyped = ({ language, mark }: Block): boolean =>
  language === "sh" && ["", staysOpen, asksAgain].includes(mark);
