# kpu::timing
