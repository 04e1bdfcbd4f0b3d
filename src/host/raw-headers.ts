/**
 * The headers as they came, every value of one that came twice: Node's own object keeps only the first
 * `authorization`, and who stands in front may have looked at the other one.
 */
export function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] ?? "");
  }
  return headers;
}
