# kpu::values
