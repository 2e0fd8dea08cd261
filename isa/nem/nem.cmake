# kpu::nem
