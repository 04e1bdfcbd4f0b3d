// Vitest evaluates a setup file again for each file of tests, but its imports once for all files of a worker.
import "./pki/certificate-equality.ts";
import "./property-seed.ts";
