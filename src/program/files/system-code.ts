/** The code of a system error, such as `ENOENT`; `undefined` for any other error. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
