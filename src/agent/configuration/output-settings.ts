import type { Variables } from "./environment.ts";

/** A folder of PEM files, for programs without SDS or the Workload API. */
export interface OutputSettings {
  readonly folder: string;
  readonly isAtomic: boolean;
  readonly mode: number;
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  /** A command line for `sh`, run after each change. */
  readonly onChange: string | undefined;
}

/** The files of the agent's own certificate. Those of a server change together: it must not load one without the other. */
export function outputOf(variables: Variables): OutputSettings | undefined {
  const { OUTPUT_CERTS, RAMPART_SERVING_CERTS, RAMPART_OUTPUT_OWNER: owner } = variables;
  const folder = RAMPART_SERVING_CERTS ?? OUTPUT_CERTS;
  if (folder === undefined) return undefined;
  const [uid = 0, gid = 0] = owner?.split(":").map(Number) ?? [];
  return {
    folder,
    isAtomic: RAMPART_SERVING_CERTS !== undefined || variables.RAMPART_OUTPUT_ATOMIC,
    // In a pod, other containers read the files from a volume as other users.
    mode: variables.KUBERNETES_SERVICE_HOST ? 0o644 : 0o600,
    owner: owner === undefined ? undefined : { uid, gid },
    onChange: variables.RAMPART_ON_CHANGE,
  };
}
