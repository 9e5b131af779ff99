// How the pages of the dashboard are built: from src/dashboard/web to dist/dashboard.
import { resolve } from 'node:path'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

// What is built is for production, whoever builds it: tests have another word here.
process.env.NODE_ENV = 'production'

export default defineConfig({
  root: resolve(import.meta.dirname, 'src/dashboard/web'),
  plugins: [react()],
  build: {
    outDir: resolve(import.meta.dirname, 'dist/dashboard'),
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
