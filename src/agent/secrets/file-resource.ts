/** A resource that is a file, by the name that Istio gives it. */
export type FileResource =
  | { readonly kind: "certificate"; readonly chainFile: string; readonly keyFile: string }
  | { readonly kind: "roots"; readonly file: string }
  | { readonly kind: "system-roots" };

/** Reads `file-cert:<chain>~<key>`, `file-root:<file>` and `file-root:system`; else `undefined`. */
export function parseFileResource(name: string): FileResource | undefined {
  if (name === "file-root:system") return { kind: "system-roots" };
  const [, chainFile, keyFile] = /^file-cert:([^~]+)~([^~]+)$/.exec(name) ?? [];
  if (chainFile && keyFile) return { kind: "certificate", chainFile, keyFile };
  const [, file] = /^file-root:(.+)$/.exec(name) ?? [];
  return file ? { kind: "roots", file } : undefined;
}
