// How the pages of the dashboard are built: from src/dashboard/web to dist/dashboard.
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

// What is built is for production, whoever builds it: tests have another word here.
process.env.NODE_ENV = 'production'

const BUILT = resolve(import.meta.dirname, 'dist/dashboard')

/** Beside each file the same in gzip, which the server sends to whoever takes it. */
const compressed: Plugin = {
  name: 'compressed',
  async writeBundle() {
    for (const name of await readdir(BUILT, { recursive: true })) {
      if (!/\.(js|css|svg)$/.test(name)) continue
      await writeFile(join(BUILT, `${name}.gz`), gzipSync(await readFile(join(BUILT, name)), { level: 9 }))
    }
  },
}

export default defineConfig({
  root: resolve(import.meta.dirname, 'src/dashboard/web'),
  plugins: [react(), compressed],
  build: {
    outDir: BUILT,
    emptyOutDir: true,
    // The policy of the pages allows no other sources: nothing is put into them as data.
    assetsInlineLimit: 0,
    // What it would add to the page is an inline script.
    modulePreload: { polyfill: false },
    target: 'es2022',
    // Measuring the gzipped sizes takes longer than the build itself.
    reportCompressedSize: false,
  },
})
