import type { Variables } from "./environment.ts";

const maximumJwtFiles = 8;
const jwtFileForm = /^([^=]+)=(\S{1,255})$/;

export function jwtFilesOf(variables: Variables, faults: string[]) {
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

/** A file with a JWT-SVID for one audience. */
export type JwtFile = Readonly<ReturnType<typeof jwtFilesOf>[number]>;

function ownerOf({ RAMPART_OUTPUT_OWNER: owner }: Variables) {
  const [uid = 0, gid = 0] = owner?.split(":").map(Number) ?? [];
  return owner === undefined ? undefined : { uid, gid };
}

/** The files of the agent's own certificate. Those of a server change together: it must not load one without the other. */
export function outputOf(variables: Variables) {
  const { OUTPUT_CERTS, RAMPART_SERVING_CERTS } = variables;
  const folder = RAMPART_SERVING_CERTS ?? OUTPUT_CERTS;
  if (folder === undefined) return undefined;
  return {
    folder,
    isAtomic: RAMPART_SERVING_CERTS !== undefined || variables.RAMPART_OUTPUT_ATOMIC,
    // In a pod, other containers read the files from a volume as other users.
    mode: variables.KUBERNETES_SERVICE_HOST ? 0o644 : 0o600,
    owner: ownerOf(variables),
    /** A command line for `sh`, run after each change. */
    onChange: variables.RAMPART_ON_CHANGE,
  };
}

/** A folder of PEM files, for programs without SDS or the Workload API. */
export type OutputSettings = Readonly<NonNullable<ReturnType<typeof outputOf>>>;
