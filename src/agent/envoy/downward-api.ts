import { readSmallFile, unlessMissing } from "../../program/files/small-file.ts";

/** Kubernetes holds annotations to 256 KiB in all. */
const maximumOctets = 1024 * 1024;

/** The metadata of a pod, as the kubelet has written it. */
export type PodFields = Readonly<Record<string, string>>;

/**
 * Reads a pod's labels or annotations from a file of the downward API.
 *
 * @returns `undefined` if there is no such file, as outside of Kubernetes.
 * @throws OperatorError for a file that cannot be read.
 */
export async function readPodFields(path: string): Promise<PodFields | undefined> {
  const text = await unlessMissing(readSmallFile(path, maximumOctets));
  return text === undefined ? undefined : parsePodFields(text);
}

/** Parses lines of `key="value"`, the value quoted as Go does it. It skips other lines, as pilot-agent does. */
export function parsePodFields(text: string): PodFields {
  const lines = text.split("\n").map((line) => /^([^=]+)="(.*)"$/.exec(line));
  return Object.fromEntries(
    lines.flatMap((match) => (match ? [[match[1] ?? "", unquote(match[2] ?? "")]] : [])),
  );
}

const plain: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

function unquote(text: string): string {
  const escapes = /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))/g;
  return text.replace(escapes, (_all, octet, short, long, letter) => {
    const code = octet ?? short ?? long;
    return code ? String.fromCodePoint(Number.parseInt(code, 16)) : (plain[letter] ?? letter);
  });
}
