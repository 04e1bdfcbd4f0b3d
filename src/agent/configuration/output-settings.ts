import type { Variables } from "./environment.ts";

/** A file with a JWT-SVID for one audience. */
export interface JwtFile {
  readonly path: string;
  readonly audience: string;
  readonly owner: OutputSettings["owner"];
}

const maximumJwtFiles = 8;
const jwtFileForm = /^([^=]+)=(\S{1,255})$/;

export function jwtFilesOf(variables: Variables, faults: string[]): JwtFile[] {
  const entries = variables.RAMPART_JWT_FILES.split(",").map((entry) => entry.trim());
  const files = entries.filter(Boolean).flatMap((entry) => {
    const [, path, audience] = jwtFileForm.exec(entry) ?? [];
    return path && audience ? [{ path, audience, owner: ownerOf(variables) }] : [];
  });
  const isWhole = files.length === entries.filter(Boolean).length;
  const paths = new Set(files.map(({ path }) => path));
  if (!isWhole || files.length > maximumJwtFiles || paths.size < files.length) {
    faults.push(
      `RAMPART_JWT_FILES: must be 1 to ${maximumJwtFiles} of <file>=<audience>, each file once`,
    );
  }
  return files;
}

function ownerOf({ RAMPART_OUTPUT_OWNER: owner }: Variables): OutputSettings["owner"] {
  const [uid = 0, gid = 0] = owner?.split(":").map(Number) ?? [];
  return owner === undefined ? undefined : { uid, gid };
}

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
  const { OUTPUT_CERTS, RAMPART_SERVING_CERTS } = variables;
  const folder = RAMPART_SERVING_CERTS ?? OUTPUT_CERTS;
  if (folder === undefined) return undefined;
  return {
    folder,
    isAtomic: RAMPART_SERVING_CERTS !== undefined || variables.RAMPART_OUTPUT_ATOMIC,
    // In a pod, other containers read the files from a volume as other users.
    mode: variables.KUBERNETES_SERVICE_HOST ? 0o644 : 0o600,
    owner: ownerOf(variables),
    onChange: variables.RAMPART_ON_CHANGE,
  };
}
